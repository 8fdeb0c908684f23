//! SQL as text, so that several statements travel in one packet.
//!
//! A round trip between the service and the database costs both of them more than most statements of
//! an order. The server runs the statements of a packet in order and stops at the first that fails.
//!
//! No text of a buyer stands in a statement as it came: see [`Text`].

use std::fmt::{self, Display, Write};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{Executor, MySqlConnection};
use time::format_description::FormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

/// Fails with [`NOT_ONE_ROW`] unless the statement before it has changed one row: a statement that
/// changes none is no error for the server, and the packet would go on.
const ONE_ROW: &str = "SET @one_row = IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION ALL SELECT 2))";
/// "Subquery returns more than 1 row": the error of [`ONE_ROW`]. No other statement of a packet has a
/// subquery.
const NOT_ONE_ROW: u16 = 1242;

/// A packet that takes longer is logged; the driver has the same limit for a statement.
const SLOW: Duration = Duration::from_secs(1);

/// Statements that are sent together.
#[derive(Debug, Default)]
pub(super) struct Packet(String);

impl Packet {
    /// Appends a statement.
    pub(super) fn push(&mut self, statement: impl Display) {
        let separator = if self.0.is_empty() { "" } else { ";" };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{separator}{statement}");
    }

    /// Appends a statement that must change exactly one row.
    pub(super) fn push_for_one_row(&mut self, statement: impl Display) {
        self.push(statement);
        self.push(ONE_ROW);
    }

    /// Sends the statements and waits for all answers. Answers the rows that were selected.
    ///
    /// The driver logs nothing meanwhile: it would log the text, which contains the values.
    pub(super) async fn send(
        &self,
        connection: &mut MySqlConnection,
    ) -> sqlx::Result<Vec<MySqlRow>> {
        let begun = Instant::now();
        let sent = connection.fetch_all(sqlx::raw_sql(&self.0));
        let answer = sent.with_subscriber(Dispatch::none()).await;
        let elapsed = begun.elapsed();
        if elapsed > SLOW {
            tracing::warn!(
                elapsed_ms = elapsed.as_millis(),
                "the statements of an order were slow"
            );
        }
        answer
    }
}

/// Whether a packet ended because a statement did not change one row.
pub(super) fn is_not_one_row(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| error.number() == NOT_ONE_ROW)
}

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

    #[test]
    fn statements_are_separated() {
        let mut packet = Packet::default();
        packet.push("BEGIN");
        packet.push_for_one_row("UPDATE a SET b = 1");
        packet.push("COMMIT");
        assert_eq!(packet.0, format!("BEGIN;UPDATE a SET b = 1;{ONE_ROW};COMMIT"));
    }
}
