//! Read, check and write, as in textbooks: correct only while one purchase runs at a time. The strategies around it
//! must ensure that.

use async_trait::async_trait;
use tokio::time::Instant;

use super::item_mutexes::{ItemMutexes, lock_if_any};
use super::steps;
use crate::{Decision, Options, Strategy, StrategyContext, WaitingBuyer};
use ledger::write::{StockWrite, UnguardedWrite};
use shop_domain::outcome::Dependency;
use shop_domain::{Outcome, Purchase, Unavailable};

/// The textbook on the stock row.
pub struct LedgerGate {
    pub context: StrategyContext,
    /// Mutexes that let in one purchase of an item until its COMMIT, in this process; `None`: nothing does.
    pub mutexes: Option<ItemMutexes>,
}

#[async_trait]
impl Strategy for LedgerGate {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let _held = lock_if_any(self.mutexes.as_ref(), &purchase, buyer.deadline).await?;
        on_ledger(&self.context, &purchase, buyer.deadline).await
    }
}

/// The textbook on the counter in Redis.
pub struct CounterGate {
    pub context: StrategyContext,
    /// Mutexes that let in one purchase of an item while it reads, checks and writes, in this process; `None`: nothing
    /// does.
    pub mutexes: Option<ItemMutexes>,
}

#[async_trait]
impl Strategy for CounterGate {
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let context = &self.context;
        let deadline = buyer.deadline;
        loop {
            let held = lock_if_any(self.mutexes.as_ref(), &purchase, deadline).await?;
            let taken = on_counter(context, &purchase, deadline).await?;
            drop(held);
            if let Some(epoch) = taken {
                return Ok(steps::write_taken(context, &purchase, epoch, buyer).await);
            }
            steps::sold_out(context, &purchase, deadline).await?;
        }
    }
}

/// On the stock row: SELECT, check in the program, UPDATE to the computed number with the order.
/// Answers when the transaction is committed.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn on_ledger(
    context: &StrategyContext,
    purchase: &Purchase,
    deadline: Instant,
) -> Decision {
    let set = read_and_compute(context, purchase, deadline).await?;
    let stock = StockWrite::of(&purchase.item, StockWrite::Guarded, set);
    Ok(context.arbiter.sell(purchase, stock, Some(deadline)).await)
}

/// SELECT, and check in the program. Answers the statement that writes the computed number.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn read_and_compute(
    context: &StrategyContext,
    purchase: &Purchase,
    deadline: Instant,
) -> Result<UnguardedWrite<'static>, Outcome> {
    let seen = steps::read(&context.arbiter, purchase, deadline).await?;
    hold!("stock-read", purchase.buyer.get());
    Ok(UnguardedWrite::Set { available: seen.available - purchase.quantity.signed() })
}

/// On the counter in Redis: GET, check in the program, SET the computed number. Answers the epoch
/// of the counter that the units came from, or `None` when too few are left.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn on_counter(
    context: &StrategyContext,
    purchase: &Purchase,
    deadline: Instant,
) -> Result<Option<u64>, Outcome> {
    let item = purchase.item.id;
    let units = purchase.quantity.signed();
    let seen = context.counters.read(item, deadline).await?;
    if seen.available < units {
        return Ok(None);
    }
    hold!("counter-read", purchase.buyer.get());
    match context.counters.overwrite(item, seen.available - units).await {
        Ok(()) => Ok(Some(seen.epoch)),
        // The counter may be lower now; no order was written.
        Err(_) => Err(Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis))),
    }
}
