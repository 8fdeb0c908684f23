//! The currency of an item.

use std::fmt;

/// A currency of ISO 4217 that has minor units, such as `USD`. Amounts are whole numbers of its minor units: cents for
/// `USD`, yen for `JPY`, a thousandth of a dinar for `KWD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency(iso_currency::Currency);

impl Currency {
    /// US dollars.
    pub const USD: Self = Self(iso_currency::Currency::USD);

    /// Reads a code of three capital letters; `None` for one that ISO 4217 does not have, and for one without minor
    /// units, such as gold.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        let found = iso_currency::Currency::from_code(code)?;
        found.exponent().is_some().then_some(Self(found))
    }

    /// The code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.code()
    }

    /// The number of decimal places of the minor unit: 2 for `USD`, 0 for `JPY`, 3 for `KWD`.
    #[must_use]
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
