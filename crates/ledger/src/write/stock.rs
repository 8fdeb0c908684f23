//! The statement that takes the stock: the condition that no purchase gets past.

use std::sync::LazyLock;
use std::time::Instant;

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::lock_row::lock_row;
use super::unguarded::{self, UnguardedWrite};
use super::{Answer, Conflict};
use crate::rows::event::outbox::Outbox;
use crate::rows::tables::StrategyTable;
use crate::sql::contended;
use crate::waiting_list;
use crate::write::new_order::stock_update;
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

impl<'a> StockWrite<'a> {
    /// Chooses by the item: `unguarded` where the arbiter is off, and otherwise `guarded`.
    #[must_use]
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
            return unguarded::write(connection, purchase, write).await;
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
    let asked_at = Some(Instant::now());
    let left: Option<i64> = sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ?")
        .bind(purchase.item.id.get())
        .fetch_optional(connection)
        .await?;
    Ok(match left {
        None => Ok(Outcome::Refused(Refusal::ItemNotFound)),
        Some(left) if left >= purchase.quantity.signed() => {
            if !stock.is_compared() {
                return Err(contended());
            }
            Err(Conflict::Stale)
        }
        Some(_) => Ok(Outcome::Refused(Refusal::SoldOut { asked_at })),
    })
}
