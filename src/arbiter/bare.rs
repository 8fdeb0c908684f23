//! The stock writes of the textbooks, for lab items whose arbiter is off.
//!
//! Nothing here checks that enough is left unless the textbook's own statement does: the gate has
//! to carry correctness alone, and a broken gate shows up as oversold units.

use sqlx::MySqlConnection;

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
    /// Write back the number if the version is still the one that was read.
    CompareVersion {
        /// What it read, minus the quantity.
        available: i64,
        /// The version that it read.
        version: u64,
    },
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
        Bare::Set { available } => (
            sqlx::query("UPDATE stock SET available = ?, version = version + 1 WHERE item_id = ?")
                .bind(available)
                .bind(item),
            Verdict::Refused(Refusal::ItemNotFound),
        ),
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
