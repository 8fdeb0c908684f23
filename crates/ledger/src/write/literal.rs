//! Literals of SQL, for a statement that contains its values and needs no round trip to be prepared.
//!
//! No text of a buyer stands in a statement as it came: see [`Text`].

use std::fmt::{self, Display, Write};

use time::format_description::FormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

/// A string literal. What is not plain ASCII, or could end the literal, is written as hexadecimal
/// digits, whatever the server's SQL mode makes of backslashes.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
        if self.0.bytes().all(is_plain) {
            return write!(formatter, "'{}'", self.0);
        }
        formatter.write_str("_utf8mb4 X'")?;
        self.0.bytes().try_for_each(|byte| write!(formatter, "{byte:02X}"))?;
        formatter.write_char('\'')
    }
}

/// A value, or `NULL`.
pub(super) struct OrNull<T>(pub(super) Option<T>);

impl<T: Display> Display for OrNull<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(formatter),
            None => formatter.write_str("NULL"),
        }
    }
}

/// A point in time as a DATETIME(6) literal in UTC.
pub(super) struct Time(pub(super) OffsetDateTime);

const DATETIME: &[FormatItem<'_>] =
    format_description!("'[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]'");

impl Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_offset(UtcOffset::UTC).format(DATETIME).map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn no_text_ends_its_literal() {
        assert_eq!(Text("order 7: {\"a\":[1]}").to_string(), "'order 7: {\"a\":[1]}'");
        assert_eq!(Text("").to_string(), "''");
        for hostile in ["'", "\\", "' OR 1=1 -- ", "\u{fc}", "\0", "\n", "\u{ff07}", "\\'"] {
            let literal = Text(hostile).to_string();
            let digits =
                literal.strip_prefix("_utf8mb4 X'").and_then(|rest| rest.strip_suffix('\''));
            let digits = digits.unwrap_or_else(|| panic!("{hostile:?} is quoted: {literal}"));
            assert_eq!(digits.len(), hostile.len() * 2);
            assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{literal}");
        }
    }

    #[test]
    fn times_are_written_in_utc_with_microseconds() {
        let time = datetime!(2026-03-01 00:30:05.000042 +02:00);
        assert_eq!(Time(time).to_string(), "'2026-02-28 22:30:05.000042'");
        assert_eq!(OrNull::<u64>(None).to_string(), "NULL");
        assert_eq!(OrNull(Some(7)).to_string(), "7");
    }
}
