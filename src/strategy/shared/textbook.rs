//! The textbook's read, check, write: right only where one runs at a time, which is what the
//! strategies around it are about.

use super::{ledger_view, redis_gate};
use crate::arbiter::{Bare, Write};
use crate::domain::outcome::Dependency;
use crate::domain::{Outcome, Unavailable};
use crate::strategy::{Gear, Request, outcome};

/// On the stock row: SELECT, check in the program, UPDATE to the computed number with the order.
/// Answers when the transaction is committed.
pub async fn on_ledger(gear: &Gear, request: &Request) -> Outcome {
    let purchase = &request.purchase;
    let seen = match ledger_view::look(&gear.pool, purchase).await {
        Ok(row) => row,
        Err(outcome) => return outcome,
    };
    let bare = Bare::Set { available: seen.available - purchase.quantity.signed() };
    let write = Write { purchase, fence: None, version_seen: None, bare };
    outcome(gear.arbiter.write(&write).await)
}

/// On the counter in Redis: GET, check in the program, SET the computed number. Answers the epoch
/// of the counter that the units came from, or `None` when too few are left.
///
/// # Errors
/// The outcome that ends the purchase.
pub async fn on_counter(gear: &Gear, request: &Request) -> Result<Option<u64>, Outcome> {
    let (item, units) = (request.purchase.item.id, request.purchase.quantity.signed());
    let seen = gear.counters.read(item).await.map_err(|error| redis_gate::unavailable(&error))?;
    if seen.available < units {
        return Ok(None);
    }
    match gear.counters.overwrite(item, seen.available - units).await {
        Ok(()) => Ok(Some(seen.epoch)),
        // The counter may be lower now; no order was written.
        Err(_) => Err(Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis))),
    }
}
