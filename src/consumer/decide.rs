//! Decides a batch of queued orders: hands each to the arbiter, and acknowledges it afterwards.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};

use super::Consumers;
use gates::redis_store::queue::{Entry, Intention};
use ledger::rows::items;
use ledger::write::{StockWrite, UnguardedWrite};
use mysql_connection::Fault;
use shop_domain::trace::SpanKind;
use shop_domain::{
    ArbiterMode, Item, ItemId, Order, OrderStatus, Outcome, Purchase, Trace, Unavailable,
};

/// Orders of a lab item without an arbiter that are written at once.
const UNGUARDED_WRITES_MAX: usize = 8;

/// The ledger's decision about an order.
enum Decision {
    /// The order as the ledger has it now; `rejected` when it was refused.
    Decided(Order),
    /// The ledger is busy, does not answer or takes no order: the order is delivered again.
    Later,
    /// The order cannot be decided, perhaps by its own fault.
    Stuck(&'static str),
}

impl Consumers {
    /// Decides about entries of one item; whether each was decided or became a dead letter.
    pub(super) async fn decide(&self, item: ItemId, entries: Vec<Entry>) -> bool {
        // A trace of its own: an entry of the queue has no field for that of its purchase, and builds
        // before this one would not read an entry with another field.
        let mut span = self.parts.traces.begin("queued orders", SpanKind::Consumer, None);
        span.set("item", item.get());
        span.set("orders", entries.len());
        let trace = span.trace();
        let found = match items::find(&self.parts.pool, item).await {
            Ok(found) => found.map(|stocked| stocked.item),
            Err(error) => {
                tracing::warn!(%error, %item, "queued orders wait for the ledger");
                return false;
            }
        };
        let mut decisions = Vec::with_capacity(entries.len());
        if let Some(item) = &found {
            for entry in &entries {
                decisions.push(self.decide_one(item, entry, &trace));
            }
        }
        // With the arbiter, all at once: the group commit makes batches of them. Without it, a few
        // at a time with the unguarded write, since the lab tests the gate alone.
        let guarded = found.as_ref().is_none_or(|item| item.arbiter == ArbiterMode::On);
        let at_once = if guarded { entries.len() } else { UNGUARDED_WRITES_MAX };
        let decisions: Vec<Decision> =
            futures::stream::iter(decisions).buffered(at_once.max(1)).collect().await;
        let mut decisions = decisions.into_iter();
        let mut ended = Vec::with_capacity(entries.len());
        for entry in &entries {
            let decision = decisions.next().unwrap_or(Decision::Stuck("there is no such item"));
            ended.push(self.end(item, entry, decision));
        }
        join_all(ended).await.into_iter().all(|ended| ended)
    }

    /// Acknowledges a decided entry, or makes a dead letter of one that cannot be decided; whether
    /// it is out of the queue.
    async fn end(&self, item: ItemId, entry: &Entry, decision: Decision) -> bool {
        match (decision, &entry.order) {
            (Decision::Decided(order), Ok(intention)) => {
                self.ack(item, entry, intention, &order).await
            }
            (Decision::Stuck(why), _) => self.dead_letter(item, entry, why).await,
            (Decision::Decided(_) | Decision::Later, _) => false,
        }
    }

    async fn decide_one(&self, item: &Arc<Item>, entry: &Entry, trace: &Trace) -> Decision {
        let Ok(intention) = &entry.order else { return Decision::Stuck("it cannot be read") };
        let mut purchase = intention.clone().purchase(Arc::clone(item), self.parts.strategy);
        purchase.trace = trace.clone();
        // A panic fails its own order, not the others.
        let written = AssertUnwindSafe(self.write(&purchase)).catch_unwind().await;
        let decision = written.unwrap_or(Decision::Stuck("writing it panicked"));
        if !matches!(decision, Decision::Stuck(_)) {
            return decision;
        }
        // An earlier delivery may have written it.
        match Box::pin(self.parts.group_commit.find_written(&purchase)).await {
            Ok(Some(order)) => Decision::Decided(order),
            Ok(None) => decision,
            Err(error) => {
                tracing::warn!(%error, order = %purchase.order_id, "queued order not looked for in the ledger yet");
                Decision::Later
            }
        }
    }

    async fn write(&self, purchase: &Purchase) -> Decision {
        let decision = self.try_once(purchase).await;
        if !matches!(decision, Decision::Stuck(_)) {
            return decision;
        }
        // A ledger that takes no order, as without one of its tables, says nothing of this one.
        if !Box::pin(self.parts.arbiter.takes_others(purchase)).await {
            return Decision::Later;
        }
        // Once more, because the ledger may take orders only since a moment ago.
        self.try_once(purchase).await
    }

    /// Has the ledger decide about an order. The order is stuck if the ledger answered its statements with an error
    /// that may be the order's own.
    async fn try_once(&self, purchase: &Purchase) -> Decision {
        match self.outcome_of(purchase).await {
            Outcome::Sold(order) if order.id == purchase.order_id => Decision::Decided(order),
            // The key belongs to another order already: this one is not sold too.
            Outcome::Sold(_) | Outcome::Replayed(_) | Outcome::Refused(_) => {
                match self.parts.arbiter.reject(purchase).await {
                    Ok(order) => Decision::Decided(order),
                    Err(error) => {
                        tracing::warn!(%error, order = %purchase.order_id, "refused order not stored yet");
                        match Fault::of(&error) {
                            Fault::CheckViolated | Fault::DoesNotFit | Fault::Other => {
                                Decision::Stuck("the ledger does not take its refusal")
                            }
                            _ => Decision::Later,
                        }
                    }
                }
            }
            Outcome::Unavailable(Unavailable::Faulty(_)) => {
                Decision::Stuck("the ledger does not take it")
            }
            Outcome::Unavailable(_) | Outcome::Unknown(_) | Outcome::Queued(_) => Decision::Later,
        }
    }

    async fn outcome_of(&self, purchase: &Purchase) -> Outcome {
        match purchase.item.arbiter {
            ArbiterMode::On => self.parts.group_commit.write(purchase.clone(), None).await,
            ArbiterMode::Off => {
                let stock = StockWrite::Unguarded(UnguardedWrite::Record);
                self.parts.arbiter.sell(purchase, stock, None).await
            }
        }
    }

    /// Acknowledges a decided order and publishes it to its owner.
    async fn ack(&self, item: ItemId, entry: &Entry, intention: &Intention, order: &Order) -> bool {
        let refused = order.status == OrderStatus::Rejected;
        failpoint!("decided");
        match self.parts.reader.ack(item, &entry.id, intention, refused).await {
            Ok(was_queued) => {
                failpoint!("acknowledged");
                if was_queued {
                    self.parts.metrics.queue_decided(if refused { "rejected" } else { "sold" });
                    self.parts.hub.order_changed(order);
                }
                true
            }
            Err(error) => {
                tracing::warn!(%error, order = %order.id, "decided order not acknowledged; it is delivered again");
                false
            }
        }
    }

    /// Makes a dead letter of an entry that was delivered too often.
    async fn dead_letter(&self, item: ItemId, entry: &Entry, why: &'static str) -> bool {
        let reader = &self.parts.reader;
        let deliveries = reader.deliveries(item, &entry.id).await;
        if !deliveries.is_ok_and(|deliveries| deliveries >= self.parts.deliveries_max) {
            return false;
        }
        match reader.move_to_dead_letters(item, entry, why).await {
            Ok(true) => {
                self.parts.metrics.queue_parked.inc();
                tracing::error!(%item, entry = entry.id, why, "queued order moved to the dead letters: see `seckill dead-letter`");
                true
            }
            Ok(false) | Err(_) => false,
        }
    }
}
