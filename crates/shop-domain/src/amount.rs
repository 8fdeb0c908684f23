//! Units of an item, and money in minor units of its currency.

use std::fmt;

/// Units of one item in one order, `1..=Quantity::MAX`.
///
/// A negative quantity would *add* stock in `available - quantity`, so it cannot be expressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(u32);

impl Quantity {
    /// One unit, the usual purchase.
    pub const ONE: Self = Self(1);
    /// The most units that one order may ask for.
    pub const MAX: u32 = 1_000;

    /// Takes a number of units; `None` when it is outside `1..=MAX`.
    pub fn new(units: i128) -> Option<Self> {
        let units = u32::try_from(units).ok()?;
        (1..=Self::MAX).contains(&units).then_some(Self(units))
    }

    /// The number of units.
    pub fn units(self) -> u32 {
        self.0
    }

    /// The number of units as the signed number that SQL and Redis count in.
    pub fn signed(self) -> i64 {
        i64::from(self.0)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An amount of money in minor units of its currency, `0..=Cents::MAX`: cents, or yen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cents(i64);

impl Cents {
    /// The largest price or amount: ten billion in whole units, far from any overflow.
    pub const MAX: i64 = 1_000_000_000_000;

    /// Takes a number of cents; `None` when it is negative or above [`Cents::MAX`].
    pub fn new(cents: i64) -> Option<Self> {
        (0..=Self::MAX).contains(&cents).then_some(Self(cents))
    }

    /// The number of cents.
    pub fn cents(self) -> i64 {
        self.0
    }

    /// The sum of amounts; at most [`Cents::MAX`].
    pub fn sum(amounts: impl Iterator<Item = Self>) -> Self {
        Self(amounts.fold(0, |sum, one| (sum + one.0).min(Self::MAX)))
    }

    /// The price of `quantity` units; `None` when it would be above [`Cents::MAX`].
    #[must_use]
    pub fn times(self, quantity: Quantity) -> Option<Self> {
        self.0.checked_mul(quantity.signed()).and_then(Self::new)
    }
}

/// A currency of ISO 4217 that has minor units, such as `USD`. Amounts are whole numbers of its minor units: cents for
/// `USD`, yen for `JPY`, a thousandth of a dinar for `KWD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// US dollars.
    pub const USD: Self = Self(iso_currency::Currency::USD);

    /// Reads a code of three capital letters; `None` for one that ISO 4217 does not have, and for one without minor
    /// units, such as gold.
    pub fn parse(code: &str) -> Option<Self> {
        let found = iso_currency::Currency::from_code(code)?;
        found.exponent().is_some().then_some(Self(found))
    }

    /// The code.
    pub fn as_str(self) -> &'static str {
        self.0.code()
    }

    /// The number of decimal places of the minor unit: 2 for `USD`, 0 for `JPY`, 3 for `KWD`.
    pub fn minor_digits(self) -> u16 {
        self.0.exponent().unwrap_or_default()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
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

    #[test]
    fn only_one_to_max_is_a_quantity() {
        for bad in [i128::MIN, -3, 0, 1_001, 1 << 32, 1 << 63, i128::MAX] {
            assert_eq!(Quantity::new(bad), None, "{bad}");
        }
        assert_eq!(Quantity::new(1), Some(Quantity::ONE));
        assert_eq!(Quantity::new(1_000).map(Quantity::units), Some(1_000));
    }

    #[test]
    fn only_money_of_the_standard_is_a_currency() {
        for (code, digits) in [("USD", 2), ("JPY", 0), ("KWD", 3), ("CLF", 4)] {
            let currency = Currency::parse(code).expect("a currency");
            assert_eq!((currency.as_str(), currency.minor_digits()), (code, digits));
        }
        for other in ["", "usd", "US", "USDT", "ABC", "XAU", "XXX"] {
            assert_eq!(Currency::parse(other), None, "{other}");
        }
    }
}
