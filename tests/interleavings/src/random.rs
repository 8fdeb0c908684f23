//! Random numbers of a run, in place of `rand`: the seed that shuttle prints repeats them.

use std::ops::{Bound, RangeBounds};

use shuttle::rand::{Rng, RngCore, thread_rng};

/// A number that is made of random bits.
pub trait Random {
    /// Makes it.
    fn of(bits: u128) -> Self;
}

impl Random for u128 {
    fn of(bits: u128) -> Self {
        bits
    }
}

impl Random for f64 {
    /// From 0 to 1.
    fn of(bits: u128) -> Self {
        (bits >> (u128::BITS - 53)) as f64 / (1_u64 << 53) as f64
    }
}

/// A random number.
#[must_use]
pub fn random<T: Random>() -> T {
    let mut numbers = thread_rng();
    let high = u128::from(numbers.next_u64()) << u64::BITS;
    T::of(high | u128::from(numbers.next_u64()))
}

/// A random number of a range that has two ends.
#[must_use]
pub fn random_range(range: impl RangeBounds<f64>) -> f64 {
    let (Bound::Included(start), Bound::Included(end) | Bound::Excluded(end)) =
        (range.start_bound(), range.end_bound())
    else {
        return 0.0;
    };
    start + (end - start) * random::<f64>()
}

/// A random number below `end`.
pub(crate) fn below(end: u32) -> u32 {
    thread_rng().gen_range(0..end)
}

/// Whether something happens that happens once in `times`.
pub(crate) fn once_in(times: u32) -> bool {
    below(times) == 0
}
