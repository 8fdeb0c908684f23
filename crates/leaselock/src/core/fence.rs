//! The number of a hold.

use std::fmt;

/// A fencing token: a number that rises strictly with every acquire of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// The highest fence, 2^53 - 1: above it the floating-point numbers of Redis scripts skip values.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
