//! Money in integer cents.

use super::Quantity;

/// An amount of money in cents, `0..=Cents::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cents(i64);

impl Cents {
    /// The largest price or amount: ten billion in whole units, far from any overflow.
    pub const MAX: i64 = 1_000_000_000_000;

    /// Takes a number of cents; `None` when it is negative or above [`Cents::MAX`].
    #[must_use]
    pub fn new(cents: i64) -> Option<Self> {
        (0..=Self::MAX).contains(&cents).then_some(Self(cents))
    }

    /// The number of cents.
    #[must_use]
    pub fn cents(self) -> i64 {
        self.0
    }

    /// The price of `quantity` units; `None` when it would be above [`Cents::MAX`].
    #[must_use]
    pub fn times(self, quantity: Quantity) -> Option<Self> {
        self.0.checked_mul(quantity.signed()).and_then(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_never_negative_and_an_amount_never_overflows() {
        assert_eq!(Cents::new(-1), None);
        assert_eq!(Cents::new(Cents::MAX + 1), None);
        let price = Cents::new(1_999).expect("in range");
        let two = Quantity::new(2).expect("in range");
        assert_eq!(price.times(two).map(Cents::cents), Some(3_998));
        let most = Cents::new(Cents::MAX).expect("in range");
        assert_eq!(most.times(two), None);
    }
}
