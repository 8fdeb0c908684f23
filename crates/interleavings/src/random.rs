//! Random numbers of a run, in place of `rand`: the seed that shuttle prints repeats them.

use std::ops::RangeInclusive;

use shuttle::rand::{Rng, RngCore, thread_rng};

/// A random number.
#[must_use]
pub fn random<T: From<u128>>() -> T {
    let mut numbers = thread_rng();
    let high = u128::from(numbers.next_u64()) << u64::BITS;
    T::from(high | u128::from(numbers.next_u64()))
}

/// A random number of a range.
#[must_use]
pub fn random_range(range: RangeInclusive<f64>) -> f64 {
    thread_rng().gen_range(range)
}

/// A random number below `end`.
pub(crate) fn below(end: u32) -> u32 {
    thread_rng().gen_range(0..end)
}

/// Whether something happens that happens once in `times`.
pub(crate) fn once_in(times: u32) -> bool {
    below(times) == 0
}
