//! The statement that takes the stock: the condition that no purchase gets past.

use sqlx::{MySqlConnection, Row};
use time::OffsetDateTime;

use super::unguarded::{self, UnguardedWrite};
use super::{Answer, Conflict, waiting_line};
use crate::domain::{ArbiterMode, Item, Outcome, Purchase, Refusal};
use crate::store::mysql::outbox::Outbox;

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
    pub(super) fn fits_a_packet(self) -> bool {
        !matches!(self, Self::Offered | Self::Unguarded(_))
    }

    /// Whether the statement compares the row with what the gate has read.
    pub(super) fn is_compared(self) -> bool {
        matches!(self, Self::GuardedByVersion(_) | Self::GuardedByTimestamp(_))
    }
}

/// Takes the units of a purchase from the stock row. `Some` ends the purchase, and the transaction
/// must be rolled back.
pub(super) async fn take(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    stock: StockWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Option<Answer>> {
    let (item, units) = (purchase.item.id.get(), purchase.quantity.signed());
    assert!(units > 0, "a purchase takes at least one unit");
    let guarded = "UPDATE stock SET available = available - ?, version = version + 1 \
         WHERE item_id = ? AND available >= ?";
    let update = |statement| sqlx::query(statement).bind(units).bind(item).bind(units);
    let update = match stock {
        StockWrite::Unguarded(write) => {
            let is_off = purchase.item.arbiter == ArbiterMode::Off;
            assert!(is_off, "an item with an arbiter is sold without a condition");
            return unguarded::write(connection, purchase, write).await;
        }
        StockWrite::Guarded => update(guarded),
        StockWrite::Offered => {
            let is_bought =
                units == 1 && waiting_line::accept(connection, purchase, outbox).await?;
            return Ok((!is_bought).then_some(Ok(Outcome::Refused(Refusal::NoOffer))));
        }
        StockWrite::GuardedAfterLock => {
            if let Err(refusal) = lock_row(connection, purchase).await? {
                return Ok(Some(Ok(Outcome::Refused(refusal))));
            }
            update(guarded)
        }
        StockWrite::GuardedByVersion(version) => {
            let statement = "UPDATE stock SET available = available - ?, version = version + 1 \
                 WHERE item_id = ? AND available >= ? AND version = ?";
            update(statement).bind(version)
        }
        StockWrite::GuardedByTimestamp(changed_at) => {
            let statement = "UPDATE stock SET available = available - ?, version = version + 1 \
                 WHERE item_id = ? AND available >= ? AND changed_at = ?";
            update(statement).bind(changed_at)
        }
    };
    if update.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(None);
    }
    why_refused(connection, purchase, stock).await.map(Some)
}

/// The answer for a purchase whose guarded statement has changed no row. Reads how many units are
/// left to tell why.
pub(super) async fn why_refused(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    stock: StockWrite<'_>,
) -> sqlx::Result<Answer> {
    let (item, units) = (purchase.item.id.get(), purchase.quantity.signed());
    purchase.look.is_now();
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ?")
        .bind(item)
        .fetch_optional(connection)
        .await?;
    let available = row.map(|row| row.try_get::<i64, _>("available")).transpose()?;
    Ok(match available {
        None => Ok(Outcome::Refused(Refusal::ItemNotFound)),
        Some(left) if left >= units && stock.is_compared() => Err(Conflict::Stale),
        Some(_) => Ok(Outcome::Refused(Refusal::SoldOut)),
    })
}

/// Locks the stock row until the transaction ends. Answers the units left under the lock, or the
/// refusal when they are too few.
pub(super) async fn lock_row(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<Result<i64, Refusal>> {
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
        .bind(purchase.item.id.get())
        .fetch_optional(connection)
        .await?;
    // The lock has kept the row as it is now.
    purchase.look.is_now();
    let Some(row) = row else { return Ok(Err(Refusal::ItemNotFound)) };
    let available: i64 = row.try_get("available")?;
    let is_enough = available >= purchase.quantity.signed();
    Ok(if is_enough { Ok(available) } else { Err(Refusal::SoldOut) })
}
