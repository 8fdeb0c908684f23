//! The stock statements of the textbooks, for lab items whose arbiter is off.
//!
//! Nothing here checks that enough is left unless the textbook's own statement does: the gate has
//! to carry correctness alone, and a broken gate shows up as oversold units.

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection};
use time::OffsetDateTime;
use tokio::sync::Notify;

use super::lock_row::lock_row;
use super::{Answer, Conflict};
use crate::rows::tables::StrategyTable;
use crate::sql::statement::Binds;
use shop_domain::{ItemId, Outcome, Purchase, Refusal};

/// The stock statement of a textbook.
#[derive(Clone, Copy, Debug)]
pub enum UnguardedWrite<'a> {
    /// Writes back the number that the program computed.
    Set {
        /// The units that the program read, minus the quantity.
        available: i64,
    },
    /// Writes the number like `Set`, but as the first statement of the transaction: the order and
    /// its COMMIT follow.
    SetFirst {
        /// The units that the program read, minus the quantity.
        available: i64,
        /// Notified as soon as the stock is written, before the order is.
        written: &'a Notify,
    },
    /// Writes back the number if the row still has the version that was read.
    CompareVersion {
        /// The units that the program read, minus the quantity.
        available: i64,
        /// The version that the program read.
        version: u64,
    },
    /// Writes back the number if the row still has the timestamp that was read.
    CompareTimestamp {
        /// The units that the program read, minus the quantity.
        available: i64,
        /// The second of the last change that the program read.
        changed_at: OffsetDateTime,
    },
    /// Locks the row, reads it under the lock, checks in the program, writes the computed number.
    LockRow,
    /// Rows of the strategy's own table have decided, at the beginning of the transaction. The stock row counts
    /// them later.
    Table(&'static dyn StrategyTable),
    /// The gate's own counter has decided: only keeps the ledger in step.
    Record,
}

/// Writes the stock. `Some` ends the purchase, and the transaction must be rolled back.
pub(super) async fn write(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    write: UnguardedWrite<'_>,
) -> sqlx::Result<Option<Answer>> {
    let item = purchase.item.id;
    let units = purchase.quantity.signed();
    let not_found = Ok(Outcome::Refused(Refusal::ItemNotFound));
    let (query, otherwise) = match write {
        UnguardedWrite::Set { available } | UnguardedWrite::SetFirst { available, .. } => {
            (set(item, available), not_found)
        }
        UnguardedWrite::LockRow => match lock_row(connection, purchase).await? {
            Ok(available) => (set(item, available - units), not_found),
            Err(outcome) => return Ok(Some(Ok(outcome))),
        },
        UnguardedWrite::CompareVersion { available, version } => (
            sqlx::query(
                "UPDATE stock SET available = ?, version = version + 1 \
                 WHERE item_id = ? AND version = ?",
            )
            .binds((available, item.get(), version)),
            Err(Conflict::Stale),
        ),
        UnguardedWrite::CompareTimestamp { available, changed_at } => (
            sqlx::query(
                "UPDATE stock SET available = ?, version = version + 1 \
                 WHERE item_id = ? AND changed_at = ?",
            )
            .binds((available, item.get(), changed_at)),
            Err(Conflict::Stale),
        ),
        UnguardedWrite::Table(_) => return Ok(None),
        UnguardedWrite::Record => (
            sqlx::query(
                "UPDATE stock SET available = available - ?, version = version + 1 WHERE item_id = ?",
            )
            .binds((units, item.get())),
            not_found,
        ),
    };
    let done = query.execute(connection).await?;
    if done.rows_affected() != 1 {
        return Ok(Some(otherwise));
    }
    if let UnguardedWrite::SetFirst { written, .. } = write {
        written.notify_one();
    }
    Ok(None)
}

fn set(item: ItemId, available: i64) -> Query<'static, MySql, MySqlArguments> {
    sqlx::query("UPDATE stock SET available = ?, version = version + 1 WHERE item_id = ?")
        .binds((available, item.get()))
}
