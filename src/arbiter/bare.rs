//! The stock writes of the textbooks, for lab items whose arbiter is off.
//!
//! Nothing here checks that enough is left unless the textbook's own statement does: the gate has
//! to carry correctness alone, and a broken gate shows up as oversold units.

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection, Row};
use time::OffsetDateTime;

use super::Verdict;
use crate::domain::{Purchase, Refusal};

/// How a strategy writes the stock when nothing stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// Write back the number that the program computed.
    Set {
        /// What it read, minus the quantity.
        available: i64,
    },
    /// The same as the first statement of the transaction instead of the last: the order follows,
    /// and the gate is told in between (see [`super::Arbiter::write_split`]).
    SetEarly {
        /// What it read, minus the quantity.
        available: i64,
    },
    /// Write back the number if the version is still the one that was read.
    CompareVersion {
        /// What it read, minus the quantity.
        available: i64,
        /// The version that it read.
        version: u64,
    },
    /// Write back the number if the row's timestamp is still the one that was read. Compared with
    /// the arbiter on, too.
    CompareTimestamp {
        /// What it read, minus the quantity.
        available: i64,
        /// The second of the last change that it read.
        changed_at: OffsetDateTime,
    },
    /// Lock the row, read it under the lock, check in the program, write the computed number. With
    /// the arbiter on the row is locked and checked first, too.
    LockRow,
    /// One statement that judges and writes.
    Take,
    /// The gate's own counter has decided: only keep the ledger in step.
    Record,
}

/// Writes the stock; `Some` is a refusal that must be rolled back.
pub(super) async fn take(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    bare: &Bare,
) -> sqlx::Result<Option<Verdict>> {
    let (item, units) = (purchase.item.id.get(), purchase.quantity.signed());
    let (query, refusal) = match *bare {
        Bare::Set { available } | Bare::SetEarly { available } => {
            (set(item, available), Verdict::Refused(Refusal::ItemNotFound))
        }
        Bare::LockRow => match lock_row(connection, purchase).await? {
            Ok(available) => {
                (set(item, available - units), Verdict::Refused(Refusal::ItemNotFound))
            }
            Err(refusal) => return Ok(Some(refusal)),
        },
        Bare::CompareVersion { available, version } => (
            sqlx::query(
                "UPDATE stock SET available = ?, version = version + 1 \
                 WHERE item_id = ? AND version = ?",
            )
            .bind(available)
            .bind(item)
            .bind(version),
            Verdict::Stale,
        ),
        Bare::CompareTimestamp { available, changed_at } => (
            sqlx::query(
                "UPDATE stock SET available = ?, version = version + 1 \
                 WHERE item_id = ? AND changed_at = ?",
            )
            .bind(available)
            .bind(item)
            .bind(changed_at),
            Verdict::Stale,
        ),
        Bare::Take => (
            sqlx::query(
                "UPDATE stock SET available = available - ?, version = version + 1 \
                 WHERE item_id = ? AND available >= ?",
            )
            .bind(units)
            .bind(item)
            .bind(units),
            Verdict::Refused(Refusal::SoldOut),
        ),
        Bare::Record => (
            sqlx::query(
                "UPDATE stock SET available = available - ?, version = version + 1 \
                 WHERE item_id = ?",
            )
            .bind(units)
            .bind(item),
            Verdict::Refused(Refusal::ItemNotFound),
        ),
    };
    let done = query.execute(connection).await?;
    Ok((done.rows_affected() != 1).then_some(refusal))
}

/// Locks the stock row until the transaction ends, and answers the units left under the lock, or
/// the refusal when they are too few.
pub(super) async fn lock_row(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<Result<i64, Verdict>> {
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
        .bind(purchase.item.id.get())
        .fetch_optional(connection)
        .await?;
    let Some(row) = row else { return Ok(Err(Verdict::Refused(Refusal::ItemNotFound))) };
    let available: i64 = row.try_get("available")?;
    let enough = available >= purchase.quantity.signed();
    Ok(if enough { Ok(available) } else { Err(Verdict::Refused(Refusal::SoldOut)) })
}

fn set(item: i64, available: i64) -> Query<'static, MySql, MySqlArguments> {
    sqlx::query("UPDATE stock SET available = ?, version = version + 1 WHERE item_id = ?")
        .bind(available)
        .bind(item)
}
