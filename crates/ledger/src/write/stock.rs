//! The statement that takes the stock: the condition that no purchase gets past.
//!
//! For lab items whose arbiter is off, it is the statement of a textbook. Then nothing here checks that enough is
//! left unless that statement does: the gate has to carry correctness alone, and a broken gate shows up as
//! oversold units.

use std::sync::LazyLock;
use std::time::Instant;

use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{MySql, MySqlConnection};
use time::OffsetDateTime;
use tokio::sync::Notify;

use super::{Answer, Conflict};
use crate::rows::outbox::Outbox;
use crate::rows::tables::StrategyTable;
use crate::waiting_list;
use crate::write::new_order::stock_update;
use mysql_connection::contended;
use shop_domain::{ArbiterMode, Item, Outcome, Purchase, Refusal};

/// The statement that takes the stock of an order.
#[derive(Clone, Copy, Debug)]
pub enum StockWrite<'a> {
    /// `UPDATE ... SET available = available - ? WHERE ... AND available >= ?`.
    Guarded,
    /// `SELECT ... FOR UPDATE` and a check in the program, then the statement of `Guarded`.
    GuardedAfterLock,
    /// The statement of `Guarded`, and only if the row still has this version.
    GuardedByVersion(u64),
    /// The statement of `Guarded`, and only if the row's last change still is of this second.
    GuardedByTimestamp(OffsetDateTime),
    /// Rows of the strategy's own table, at the beginning of the transaction, and then the statement of `Guarded`.
    GuardedAfterTable(&'static dyn StrategyTable),
    /// Takes the unit that is offered to the buyer from the waiting list.
    Offered,
    /// A textbook's statement, for a lab item whose arbiter is off.
    Unguarded(UnguardedWrite<'a>),
}

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

impl<'a> StockWrite<'a> {
    /// Chooses by the item: `unguarded` where the arbiter is off, and otherwise `guarded`.
    pub fn of(item: &Item, guarded: Self, unguarded: UnguardedWrite<'a>) -> Self {
        assert!(!matches!(guarded, Self::Unguarded(_)), "the guarded statement has no condition");
        match item.arbiter {
            ArbiterMode::On => guarded,
            ArbiterMode::Off => Self::Unguarded(unguarded),
        }
    }

    /// Whether the units are taken by one statement that checks all conditions itself.
    pub(super) fn fits_a_call(self) -> bool {
        !matches!(self, Self::Offered | Self::GuardedAfterTable(_) | Self::Unguarded(_))
    }

    /// The table whose rows the order takes first.
    pub(super) fn table(self) -> Option<&'static dyn StrategyTable> {
        match self {
            Self::GuardedAfterTable(table) | Self::Unguarded(UnguardedWrite::Table(table)) => {
                Some(table)
            }
            _ => None,
        }
    }

    /// Whether the statement compares the row with what the gate has read.
    pub(super) fn is_compared(self) -> bool {
        matches!(self, Self::GuardedByVersion(_) | Self::GuardedByTimestamp(_))
    }
}

static TAKE: LazyLock<String> = LazyLock::new(|| stock_update("stock", "?", "= ?"));
static TAKE_BY_VERSION: LazyLock<String> = LazyLock::new(|| format!("{} AND version = ?", *TAKE));
static TAKE_BY_TIMESTAMP: LazyLock<String> =
    LazyLock::new(|| format!("{} AND changed_at = ?", *TAKE));

const SET: &str = "UPDATE stock SET available = ?, version = version + 1 WHERE item_id = ?";
static SET_BY_VERSION: LazyLock<String> = LazyLock::new(|| format!("{SET} AND version = ?"));
static SET_BY_TIMESTAMP: LazyLock<String> = LazyLock::new(|| format!("{SET} AND changed_at = ?"));
const RECORD: &str =
    "UPDATE stock SET available = available - ?, version = version + 1 WHERE item_id = ?";

/// Takes the units of a purchase from the stock row. `Some` ends the purchase, and the transaction
/// must be rolled back.
pub(super) async fn take(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    stock: StockWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Option<Answer>> {
    let item = purchase.item.id.get();
    let units = purchase.quantity.signed();
    assert!(units > 0, "a purchase takes at least one unit");
    let update = |statement: &'static LazyLock<String>| {
        sqlx::query(statement).bind(units).bind(item).bind(units)
    };
    let update = match stock {
        StockWrite::Unguarded(write) => {
            let is_off = purchase.item.arbiter == ArbiterMode::Off;
            assert!(is_off, "an item with an arbiter is sold without a condition");
            return write_unguarded(connection, purchase, write).await;
        }
        StockWrite::Guarded | StockWrite::GuardedAfterTable(_) => update(&TAKE),
        StockWrite::Offered => {
            if units == 1 && waiting_list::accept(connection, purchase, outbox).await? {
                return Ok(None);
            }
            return Ok(Some(Ok(Outcome::Refused(Refusal::NoOffer))));
        }
        StockWrite::GuardedAfterLock => {
            if let Err(outcome) = lock_row(connection, purchase).await? {
                return Ok(Some(Ok(outcome)));
            }
            update(&TAKE)
        }
        StockWrite::GuardedByVersion(version) => update(&TAKE_BY_VERSION).bind(version),
        StockWrite::GuardedByTimestamp(changed_at) => update(&TAKE_BY_TIMESTAMP).bind(changed_at),
    };
    if update.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(None);
    }
    why_refused(connection, purchase, stock).await.map(Some)
}

/// The answer for a purchase whose guarded statement has changed no row. Reads how many units are
/// left to tell why.
///
/// # Errors
/// The database's; [`contended`] when enough units have come back since the statement, so that it is tried again.
pub(super) async fn why_refused(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    stock: StockWrite<'_>,
) -> sqlx::Result<Answer> {
    let asked_at = Instant::now();
    let left: Option<i64> = sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ?")
        .bind(purchase.item.id.get())
        .fetch_optional(connection)
        .await?;
    match enough(purchase, left, asked_at) {
        Err(outcome) => Ok(Ok(outcome)),
        Ok(_) if stock.is_compared() => Ok(Err(Conflict::Stale)),
        Ok(_) => Err(contended()),
    }
}

/// Locks the stock row until the transaction ends. Answers the units left under the lock, or the
/// outcome when they are too few.
async fn lock_row(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<Result<i64, Outcome>> {
    let left: Option<i64> =
        sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
            .bind(purchase.item.id.get())
            .fetch_optional(connection)
            .await?;
    // The lock has kept the row as it is now.
    Ok(enough(purchase, left, Instant::now()))
}

/// The units that are left, or the outcome when they are too few. `None`: there is no row.
fn enough(purchase: &Purchase, left: Option<i64>, asked_at: Instant) -> Result<i64, Outcome> {
    let too_few = Refusal::SoldOut { asked_at: Some(asked_at) };
    let left = left.ok_or(Outcome::Refused(Refusal::ItemNotFound))?;
    if left < purchase.quantity.signed() { Err(Outcome::Refused(too_few)) } else { Ok(left) }
}

/// Writes the stock by the statement of a textbook. `Some` ends the purchase, and the transaction must be rolled
/// back.
async fn write_unguarded(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    write: UnguardedWrite<'_>,
) -> sqlx::Result<Option<Answer>> {
    let units = purchase.quantity.signed();
    let not_found = Ok(Outcome::Refused(Refusal::ItemNotFound));
    let (query, otherwise) = match write {
        UnguardedWrite::Set { available } | UnguardedWrite::SetFirst { available, .. } => {
            (set(SET, available, purchase), not_found)
        }
        UnguardedWrite::LockRow => match lock_row(connection, purchase).await? {
            Ok(available) => (set(SET, available - units, purchase), not_found),
            Err(outcome) => return Ok(Some(Ok(outcome))),
        },
        UnguardedWrite::CompareVersion { available, version } => {
            (set(&SET_BY_VERSION, available, purchase).bind(version), Err(Conflict::Stale))
        }
        UnguardedWrite::CompareTimestamp { available, changed_at } => {
            (set(&SET_BY_TIMESTAMP, available, purchase).bind(changed_at), Err(Conflict::Stale))
        }
        UnguardedWrite::Table(_) => return Ok(None),
        UnguardedWrite::Record => (set(RECORD, units, purchase), not_found),
    };
    let done = query.execute(connection).await?;
    if done.rows_affected() != 1 {
        return Ok(Some(otherwise));
    }
    if let UnguardedWrite::SetFirst { written, .. } = write {
        written.notify_one();
        // A fast server answers all later statements before the task that waits for this is polled.
        tokio::task::yield_now().await;
    }
    Ok(None)
}

fn set(
    statement: &'static str,
    number: i64,
    purchase: &Purchase,
) -> Query<'static, MySql, MySqlArguments> {
    sqlx::query(statement).bind(number).bind(purchase.item.id.get())
}
