//! What gates that count in this process's memory have in common.

use super::item_mutexes::ItemMutexes;
use super::{ledger_view, redis_gate};
use crate::arbiter::{Bare, Verdict, Write};
use crate::domain::{Outcome, Refusal};
use crate::store::memory::MemoryCounter;
use crate::strategy::{Gear, Request, outcome};

/// One purchase: read, check and write the counter, under a mutex if there is one; then the order.
pub async fn purchase(gear: &Gear, request: &Request, mutexes: Option<&ItemMutexes>) -> Outcome {
    let (item, units) = (request.purchase.item.id, request.purchase.quantity.signed());
    loop {
        let counter = match find(gear, request).await {
            Ok(counter) => counter,
            Err(outcome) => return outcome,
        };
        let held = match mutexes {
            Some(mutexes) => match mutexes.lock(request).await {
                Ok(guard) => Some(guard),
                Err(outcome) => return outcome,
            },
            None => None,
        };
        let taken = take(&counter, units).await;
        drop(held);
        if taken {
            return write(gear, request, &counter).await;
        }
        if let Some(outcome) = redis_gate::sold_out(gear, request).await {
            return outcome;
        }
        // The ledger has more: units came back, or were loaded while others were in flight. Only
        // an item with an arbiter gets here, so counting some twice does no harm.
        gear.memory.forget(item).await;
    }
}

async fn find(gear: &Gear, request: &Request) -> Result<MemoryCounter, Outcome> {
    match gear.memory.find(request.purchase.item.id).await {
        Ok(counter) => counter.ok_or(Outcome::Refused(Refusal::ItemNotFound)),
        Err(error) => Err(ledger_view::unavailable(&error)),
    }
}

/// Read, check, write; whether the units were there.
async fn take(counter: &MemoryCounter, units: i64) -> bool {
    let seen = counter.read();
    if seen < units {
        return false;
    }
    // What any step between the two does sooner or later: it lets somebody else run.
    tokio::task::yield_now().await;
    counter.overwrite(seen - units);
    true
}

async fn write(gear: &Gear, request: &Request, counter: &MemoryCounter) -> Outcome {
    let purchase = &request.purchase;
    let write = Write { purchase, fence: None, version_seen: None, bare: Bare::Record };
    let verdict = gear.arbiter.write(&write).await;
    if !matches!(verdict, Verdict::Sold(_) | Verdict::Unknown(_)) {
        counter.give_back(purchase.quantity.signed());
    }
    outcome(verdict)
}
