//! The lines of a log.

use super::Head;

/// The largest number: what JavaScript counts exactly.
const NUMBER_MAX: i64 = (1 << 53) - 1;

/// An order or a buyer, by its salted hash.
pub(super) type Name = [u8; 16];

/// A line behind the first two.
pub(super) enum Line<'a> {
    /// A key that signs heads.
    Key(&'a str),
    Head(Head),
    Opened {
        units: i64,
        limit: i64,
        delay_seconds: i64,
        time: i64,
    },
    Sold {
        time: i64,
        order: Name,
        buyer: Name,
        units: i64,
    },
    Returned {
        time: i64,
        order: Name,
        buyer: Name,
        units: i64,
    },
    Refused {
        time: i64,
        units: i64,
        code: &'a str,
    },
    /// Units that were added to the sale, or taken out of it.
    Stock {
        time: i64,
        units: i64,
    },
    /// Units that are offered to buyers who waited, or are so no more.
    Offers {
        time: i64,
        units: i64,
    },
    /// An entry of a draw, or its end.
    Entry {
        time: i64,
    },
    Ended,
}

impl<'a> Line<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        Some(match words[..] {
            ["key", key] => Self::Key(digits(key, 64)?),
            ["head", size, root, time, units, orders, refusals, key, signature] => {
                Self::Head(Head {
                    size: number(size, 15)?.unsigned_abs(),
                    root: digits(root, 64)?.to_owned(),
                    time: number(time, 16)?,
                    units: signed(units, 12)?,
                    orders: signed(orders, 12)?,
                    refusals: number(refusals, 12)?,
                    key: digits(key, 64)?.to_owned(),
                    signature: digits(signature, 128)?.to_owned(),
                })
            }
            ["opened", time, units, limit, delay] => Self::Opened {
                time: number(time, 16)?,
                units: number(units, 10)?,
                limit: number(limit, 7)?,
                delay_seconds: number(delay, 7)?,
            },
            [kind @ ("sold" | "returned"), time, order, buyer, units] => {
                let (time, units) = (number(time, 16)?, number(units, 4)?);
                let (order, buyer) = (name(order)?, name(buyer)?);
                match kind {
                    "sold" => Self::Sold { time, order, buyer, units },
                    _ => Self::Returned { time, order, buyer, units },
                }
            }
            ["refused", time, id, buyer, units, code] => {
                name(id).and(name(buyer))?;
                let is_code = (1..=32).contains(&code.len())
                    && code.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
                let (time, units) = (number(time, 16)?, number(units, 4)?);
                is_code.then_some(Self::Refused { time, units, code })?
            }
            ["stock", time, units] => {
                Self::Stock { time: number(time, 16)?, units: signed(units, 10)? }
            }
            ["offers", time, units] => {
                Self::Offers { time: number(time, 16)?, units: signed(units, 10)? }
            }
            ["entered" | "withdrawn", time, id] => {
                name(id)?;
                Self::Entry { time: number(time, 16)? }
            }
            ["ended", time] => number(time, 16).map(|_| Self::Ended)?,
            _ => return None,
        })
    }

    /// The time of an entry that answers a buyer, who has a receipt for it.
    pub(super) fn time_of_answer(&self) -> Option<i64> {
        match self {
            Self::Sold { time, .. } | Self::Refused { time, .. } | Self::Entry { time } => {
                Some(*time)
            }
            _ => None,
        }
    }
}

/// A number with a limit of its digits.
pub(super) fn number(word: &str, length_max: usize) -> Option<i64> {
    let is_number =
        (1..=length_max).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| word.parse().ok())??;
    (number <= NUMBER_MAX).then_some(number)
}

fn signed(word: &str, length_max: usize) -> Option<i64> {
    match word.strip_prefix('-') {
        Some(word) => number(word, length_max).map(|number| -number),
        None => number(word, length_max),
    }
}

/// A word of hexadecimal digits, all in lower case.
fn digits(word: &str, length: usize) -> Option<&str> {
    let are_digits = word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (word.len() == length && are_digits).then_some(word)
}

fn name(word: &str) -> Option<Name> {
    crate::bytes(digits(word, 32)?)
}
