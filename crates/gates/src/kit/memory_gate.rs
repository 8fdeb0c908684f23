//! The steps of gates that count in this process's memory.

use async_trait::async_trait;
use tokio::time::Instant;

use super::item_mutexes::{ItemMutexes, lock_if_any};
use super::steps;
use crate::memory_store::MemoryCounter;
use crate::{Decision, Options, Strategy, StrategyContext, WaitingBuyer};
use shop_domain::{ItemId, Outcome, Purchase, Refusal};

/// A gate that counts in this process's memory.
pub struct MemoryGate {
    pub context: StrategyContext,
    /// Mutexes that make reading, checking and writing the counter one step; `None`: nothing does.
    pub mutexes: Option<ItemMutexes>,
}

#[async_trait]
impl Strategy for MemoryGate {
    /// Reads, checks and writes the counter; then the order.
    async fn purchase(&self, purchase: Purchase, _: Options, buyer: &WaitingBuyer) -> Decision {
        let context = &self.context;
        let deadline = buyer.deadline;
        let item = purchase.item.id;
        let units = purchase.quantity.signed();
        loop {
            let counter = find(context, item, deadline).await?;
            let held = lock_if_any(self.mutexes.as_ref(), &purchase, deadline).await?;
            let taken = take(&counter, &purchase).await;
            drop(held);
            if taken {
                let outcome = steps::write_record(context, &purchase, deadline).await;
                if !outcome.may_hold_stock() {
                    counter.give_back(units);
                }
                return Ok(outcome);
            }
            steps::sold_out(context, &purchase, deadline).await?;
            // The ledger has more: units came back, or were loaded while others were in flight. Only
            // an item with an arbiter gets here, so counting some twice does no harm.
            context.memory.forget(item);
        }
    }
}

async fn find(
    context: &StrategyContext,
    item: ItemId,
    deadline: Instant,
) -> Result<MemoryCounter, Outcome> {
    let counter = steps::in_time(deadline, context.memory.find(item)).await?;
    counter.ok_or(Outcome::Refused(Refusal::ItemNotFound))
}

/// Read, check, write; whether the units were there.
async fn take(counter: &MemoryCounter, purchase: &Purchase) -> bool {
    let units = purchase.quantity.signed();
    let seen = counter.read();
    if seen < units {
        return false;
    }
    // Lets another task run here, as any step between read and write may.
    tokio::task::yield_now().await;
    hold!("number-read", purchase.buyer.get());
    counter.overwrite(seen - units);
    true
}
