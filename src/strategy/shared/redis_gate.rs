//! What gates that count in Redis have in common: giving units back, and not saying "sold out"
//! while the ledger has stock.

use std::time::Duration;

use tokio::time::Instant;

use super::ledger_view;
use crate::arbiter::{Bare, Verdict, Write};
use crate::domain::outcome::Dependency;
use crate::domain::{ArbiterMode, Outcome, Refusal, Unavailable};
use crate::store::redis::CounterError;
use crate::strategy::{Gear, Request, outcome};

/// The longest pause before a gate that has nothing left is asked again.
const LOOK_AGAIN_MAX: Duration = Duration::from_millis(40);

/// Has the arbiter write what the gate took from the counter of `epoch`. Units that the arbiter
/// refuses go back; those of an unknown outcome do not, until the reconciliation knows.
pub async fn write(gear: &Gear, request: &Request, epoch: u64) -> Outcome {
    let verdict = gear.arbiter.write(&record(request)).await;
    give_back_if_refused(gear, request, epoch, &verdict).await;
    outcome(verdict)
}

/// As [`crate::arbiter::Arbiter::write`], but in the item's lane, together with what else is
/// waiting there. With the arbiter off the order is written by itself, and the ledger only keeps in
/// step with the gate.
pub async fn write_in_lane(gear: &Gear, request: &Request) -> Verdict {
    if request.purchase.item.arbiter == ArbiterMode::On {
        gear.lanes.write(request.purchase.clone()).await
    } else {
        gear.arbiter.write(&record(request)).await
    }
}

fn record(request: &Request) -> Write<'_> {
    Write { purchase: &request.purchase, fence: None, version_seen: None, bare: Bare::Record }
}

/// Gives the purchase's units back to the counter unless they were sold or may have been.
pub async fn give_back_if_refused(gear: &Gear, request: &Request, epoch: u64, verdict: &Verdict) {
    if !matches!(verdict, Verdict::Sold(_) | Verdict::Unknown) {
        let purchase = &request.purchase;
        gear.counters.give_back(purchase.item.id, epoch, purchase.quantity.signed()).await;
    }
}

/// The gate has nothing left. The counter may be behind the ledger, or hold units for purchases
/// that will be refused: so "sold out" is said only when the ledger says so too. `None` means ask
/// the gate again. With the arbiter off the gate's word is final.
pub async fn sold_out(gear: &Gear, request: &Request) -> Option<Outcome> {
    if request.purchase.item.arbiter == ArbiterMode::Off {
        return Some(Outcome::Refused(Refusal::SoldOut));
    }
    if let Err(outcome) = ledger_view::look(&gear.pool, &request.purchase).await {
        return Some(outcome);
    }
    pause(request, LOOK_AGAIN_MAX).await
}

/// Waits a random part of `bound`; an outcome when the deadline has passed.
pub async fn pause(request: &Request, bound: Duration) -> Option<Outcome> {
    tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
    let late = Instant::now() >= request.deadline;
    late.then_some(Outcome::Unavailable(Unavailable::Contended))
}

/// What an unreadable counter means, when nothing was written yet.
#[must_use]
pub fn unavailable(error: &CounterError) -> Outcome {
    match error {
        CounterError::ItemNotFound => Outcome::Refused(Refusal::ItemNotFound),
        CounterError::Loading => Outcome::Unavailable(Unavailable::Contended),
        CounterError::Mysql(error) => ledger_view::unavailable(error),
        CounterError::Redis(error) => {
            tracing::warn!(%error, "the counter could not be read");
            Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis))
        }
    }
}
