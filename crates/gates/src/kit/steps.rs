//! Steps that gates share: reading the stock row, having the order written, giving units back, and not saying
//! "sold out" while the ledger has stock.

use std::borrow::Borrow;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::redis_store::CounterError;
use crate::{StrategyContext, WaitingBuyer};
use ledger::rows::items::StockRow;
use ledger::write::{Arbiter, StockWrite, UnguardedWrite, no_ledger};
use shop_domain::outcome::Dependency;
use shop_domain::{ArbiterMode, Outcome, Purchase, Refusal, Unavailable};

/// The longest pause before a gate that has nothing left is asked again.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(40);

/// Reads the item's stock row without a lock; `Err` is the outcome to answer with, among others
/// `sold_out` when fewer units are left than are asked for.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn read(
    arbiter: &Arbiter,
    purchase: &Purchase,
    deadline: Instant,
) -> Result<StockRow, Outcome> {
    let asked_at = Some(std::time::Instant::now());
    match in_time(deadline, arbiter.stock(purchase.item.id)).await? {
        Some(row) if row.available < purchase.quantity.signed() => {
            Err(Outcome::Refused(Refusal::SoldOut { asked_at }))
        }
        Some(row) => Ok(row),
        None => Err(Outcome::Refused(Refusal::ItemNotFound)),
    }
}

/// Waits for a read of the ledger until the deadline. Nothing was written by then, so the buyer may come again.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn in_time<T, E: Borrow<ledger::Error>>(
    deadline: Instant,
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, Outcome> {
    let Ok(read) = timeout_at(deadline, read).await else {
        return Err(Outcome::Unavailable(Unavailable::Contended));
    };
    read.map_err(|error| no_ledger(error.borrow()))
}

/// Lets the arbiter write the order for units that the gate took from the counter of `epoch`. If the arbiter refuses,
/// the units go back to the counter. After an unknown outcome they do not, until the reconciliation knows.
pub async fn write_taken(
    context: &StrategyContext,
    purchase: &Purchase,
    epoch: u64,
    buyer: &WaitingBuyer,
) -> Outcome {
    let outcome = write_record(context, purchase, buyer.deadline).await;
    let units = purchase.quantity.signed();
    let give_back = context.counters.give_back(purchase.item.id, epoch, units);
    give_back_if_refused(&outcome, buyer, give_back).await;
    outcome
}

/// Lets the arbiter write the order in a batch of the item. With the arbiter off, the order is written by itself, and
/// the ledger only follows the gate.
pub async fn write_in_batch(
    context: &StrategyContext,
    purchase: Purchase,
    deadline: Instant,
) -> Outcome {
    match purchase.item.arbiter {
        ArbiterMode::On => context.group_commit.write(purchase, Some(deadline)).await,
        ArbiterMode::Off => write_record(context, &purchase, deadline).await,
    }
}

/// Lets the arbiter write the order of a purchase whose units a counter has already given.
pub async fn write_record(
    context: &StrategyContext,
    purchase: &Purchase,
    deadline: Instant,
) -> Outcome {
    let stock = StockWrite::of(&purchase.item, StockWrite::Guarded, UnguardedWrite::Record);
    context.arbiter.sell(purchase, stock, Some(deadline)).await
}

/// Gives the purchase's units back unless they were sold or may have been. Sets the outcome for the buyer first.
pub async fn give_back_if_refused(
    outcome: &Outcome,
    buyer: &WaitingBuyer,
    give_back: impl Future<Output = ()>,
) {
    if !outcome.may_hold_stock() {
        buyer.set_outcome(outcome);
        give_back.await;
    }
}

/// Answers "sold out" for a gate that has nothing left, but only when the ledger says so too: the counter may be behind
/// the ledger, or hold units for purchases that will be refused. `Ok` means: ask the gate again. With the arbiter off
/// the gate's answer is final.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn sold_out(
    context: &StrategyContext,
    purchase: &Purchase,
    deadline: Instant,
) -> Result<(), Outcome> {
    if purchase.item.arbiter == ArbiterMode::Off {
        return Err(Outcome::Refused(Refusal::SoldOut { asked_at: None }));
    }
    read(&context.arbiter, purchase, deadline).await?;
    pause(deadline, LOOK_AGAIN_MAX).await
}

/// Waits a random part of `bound`.
///
/// # Errors
/// The outcome when the deadline has passed.
pub async fn pause(deadline: Instant, bound: Duration) -> Result<(), Outcome> {
    tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
    let late = Outcome::Unavailable(Unavailable::Contended);
    if Instant::now() >= deadline { Err(late) } else { Ok(()) }
}

/// The outcome when a counter cannot be read, before anything was written.
impl From<CounterError> for Outcome {
    fn from(error: CounterError) -> Self {
        match error {
            CounterError::ItemNotFound => Self::Refused(Refusal::ItemNotFound),
            CounterError::Loading => Self::Unavailable(Unavailable::Contended),
            CounterError::Mysql(error) => no_ledger(&error),
            CounterError::Redis(error) => {
                tracing::warn!(%error, "counter not read");
                Self::Unavailable(Unavailable::Dependency(Dependency::Redis))
            }
        }
    }
}
