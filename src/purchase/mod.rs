//! The purchase path, which is the same for every strategy.
//!
//! [`Purchases::buy`] in order: find the item and the strategy; check what can be said without the
//! gate (the sale's window, the ticket, the buyer's limit, "sold out" from memory); ask the
//! breakers and admission; run the gate on a task of its own, which finishes whether or not the
//! buyer still waits; where that ends without an order, ask what became of the request's key before
//! (`earlier.rs`); report the outcome.
//!
//! A retry's key is looked up last, because most keys are new: the arbiter's unique key finds those
//! that reach it, and only a request that would be turned away has to be asked about.

mod admission;
mod breaker_permits;
mod checks;
mod earlier;
mod items;
mod join_or_poll;
mod keys;
mod load_shedder;
mod offers;
mod requests;
mod sold_out;
pub mod waiting_room;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::live::{Hub, OutcomeCounts};
use gates::redis_store::Queue;
use gates::{Card, Options, Strategies, Strategy};
use ledger::route::breaker::Breakers;
use ledger::route::shards::Shards;
use shop_domain::outcome::Dependency;
use shop_domain::{
    Cents, Clock, Doubt, Item, ItemId, OrderId, Outcome, Purchase, Quantity, Refusal, RequestKey,
    Span, Trace, Unavailable, UserId,
};
use shop_metrics::Metrics;

use breaker_permits::BreakerPermits;

pub use admission::Admission;
pub use items::Items;
pub use keys::{KeyReader, KeyState, Keys, Looked, NotLookedUp};
pub use load_shedder::ItemLimits;
pub use offers::AcceptOffer;
pub use requests::{ANNOUNCE_AFTER, Announcer, Requests};
pub use sold_out::SoldOut;
pub use waiting_room::WaitingRoom;

/// The request of a purchase.
#[derive(Clone, Debug)]
pub struct PurchaseRequest {
    pub buyer: UserId,
    pub item: ItemId,
    /// The number of units.
    pub quantity: Quantity,
    /// The strategy's name, or `default`.
    pub strategy: String,
    /// The query parameters that refine a lock strategy.
    pub options: Options,
    /// The caller's key, if it sent one.
    pub key: Option<RequestKey>,
    /// The ticket of the item's waiting room, if it has one.
    pub ticket: Option<String>,
    /// Where its steps write their spans.
    pub trace: Trace,
}

/// The purchase path. Clones share everything.
#[derive(Clone)]
pub struct Purchases {
    parts: Arc<Parts>,
}

/// The parts of the purchase path that each ledger has.
pub struct LedgerParts {
    pub strategies: Strategies,
    /// The gate of units that are offered to buyers who waited.
    pub accept_offer: Arc<dyn Strategy>,
    /// Looks up the results of earlier requests.
    pub keys: Keys,
    /// The orders that are on their way to the ledger.
    pub queue: Queue,
    /// The circuit breakers of the servers.
    pub breakers: Breakers,
    /// Limits the purchases that run at once.
    pub admission: Admission,
    /// Counts outcomes by strategy.
    pub metrics: Metrics,
}

/// The parts of the purchase path.
pub struct Parts {
    /// The parts of each ledger.
    pub ledgers: Shards<LedgerParts>,
    /// The items, a moment old.
    pub items: Items,
    /// The items that are known to be sold out.
    pub sold_out: SoldOut,
    /// The hub for events.
    pub hub: Hub,
    /// Counts outcomes by item.
    pub outcome_counts: OutcomeCounts,
    /// Counts what belongs to no ledger.
    pub metrics: Metrics,
    /// The wall clock.
    pub clock: Clock,
    /// Running purchases, which a stop waits for.
    pub tasks: TaskTracker,
    /// The waiting rooms, for items that have one.
    pub waiting_room: WaitingRoom,
    /// How long a buyer waits.
    pub deadline: Duration,
    /// How long a gate waits: shorter, so that it ends before its buyer is answered.
    pub gate_wait: Duration,
}

impl Purchases {
    /// A purchase path over `parts`.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Buys, or says why not. When the wait runs out the answer is `Unknown` and the purchase
    /// still finishes; dropping the returned future does not stop it either.
    pub async fn buy(&self, request: PurchaseRequest) -> Outcome {
        let started = Instant::now();
        let admission = request.trace.span("admission");
        let item = match self.find(&request).await {
            Ok(item) => item,
            Err(outcome) => return outcome,
        };
        let mut found = Arc::clone(&item);
        let resolved = self.resolve(&request, &item);
        let card = resolved.as_ref().ok().map(|(card, _)| *card);
        let mut outcome = match resolved {
            Ok(gate) => self.attempt(&request, item, gate, (started, admission)).await,
            Err(outcome) => outcome,
        };
        if outcome == MOVING
            && let Some(moved) = Box::pin(self.find_moved(&request, found.home)).await
            && let Ok(gate) = self.resolve(&request, &moved)
        {
            found = Arc::clone(&moved);
            let again = request.trace.span("admission");
            outcome = Box::pin(self.attempt(&request, moved, gate, (started, again))).await;
        }
        if let Some(key) = &request.key
            && hides_an_order(&outcome)
            && let _span = request.trace.span("earlier request")
            && let Some(earlier) = Box::pin(self.earlier(&request, key, &found, &outcome)).await
        {
            outcome = earlier;
        }
        if let Some(card) = card {
            let seconds = started.elapsed().as_secs_f64();
            let ledger = self.parts.ledgers.at(found.home.shard);
            ledger.metrics.purchase_ended(card.name, outcome.as_str(), seconds);
            self.parts.outcome_counts.count(found.id, &outcome);
        }
        outcome
    }

    /// Checks what can be said without the gate, and runs it.
    async fn attempt(
        &self,
        request: &PurchaseRequest,
        item: Arc<Item>,
        gate: (&'static Card, &Arc<dyn Strategy>),
        (started, admission): (Instant, Span),
    ) -> Outcome {
        match self.check_eligibility(request, &item) {
            Ok(amount) => self.run(request, item, amount, gate, (started, admission)).await,
            Err(outcome) => outcome,
        }
    }

    /// The items as purchases see them.
    #[must_use]
    pub fn items(&self) -> &Items {
        &self.parts.items
    }

    /// The outcomes of each item's purchases.
    #[must_use]
    pub fn outcome_counts(&self) -> &OutcomeCounts {
        &self.parts.outcome_counts
    }

    /// The strategies.
    #[must_use]
    pub fn strategies(&self) -> &Strategies {
        &self.parts.ledgers.home().strategies
    }

    /// The locks of all strategies, each once.
    #[must_use]
    pub fn locks(&self) -> Vec<Arc<dyn leaselock::Mutex>> {
        let ledgers = self.parts.ledgers.iter();
        let mut locks: Vec<Arc<dyn leaselock::Mutex>> = Vec::new();
        for lock in ledgers.flat_map(|(_, ledger)| ledger.strategies.locks()) {
            if !locks.iter().any(|known| Arc::ptr_eq(known, &lock)) {
                locks.push(lock);
            }
        }
        locks
    }

    /// Reads an item again and forgets that it is sold out, after an edit, a cancellation or an
    /// expiry.
    pub fn item_changed(&self, item: ItemId) {
        self.parts.items.forget(item);
        self.parts.sold_out.clear(item);
    }

    /// Admission, then the gate on a task of its own.
    async fn run(
        &self,
        request: &PurchaseRequest,
        item: Arc<Item>,
        amount: Cents,
        (card, strategy): (&'static Card, &Arc<dyn Strategy>),
        (started, admission): (Instant, Span),
    ) -> Outcome {
        let ledger = self.parts.ledgers.at(item.home.shard);
        let permits = match BreakerPermits::acquire(&ledger.breakers, card) {
            Ok(permits) => permits,
            Err(outcome) => return outcome,
        };
        let key = request.key.as_ref();
        let admitted = match ledger.admission.enter(request.buyer, item.id, key) {
            Ok(admitted) => admitted,
            Err(outcome) => return outcome,
        };
        drop(admission);
        let mut gate = request.trace.span("gate");
        gate.set("strategy", card.name);
        let order_id = OrderId::generate_at(item.home);
        // The item's ledger ends the hold, so it begins by the same clock.
        let created_at = self.parts.clock.ledger_now(item.home.shard);
        let purchase = Purchase {
            order_id,
            buyer: request.buyer,
            quantity: request.quantity,
            amount,
            key: key.cloned().unwrap_or_else(|| RequestKey::of_order(order_id)),
            strategy: card.name,
            created_at,
            expires_at: created_at + time::Duration::seconds(item.hold_seconds.into()),
            item,
            trace: gate.trace(),
            counts_refusals: true,
        };
        let (parts, strategy) = (Arc::clone(&self.parts), Arc::clone(strategy));
        let (options, deadline) = (request.options, started + self.parts.gate_wait);
        let client = admitted.client();
        let work = async move {
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            let hidden = match earlier::may_be_hidden(&purchase, card) {
                true => Box::pin(earlier::found(&parts.ledgers, &purchase, card)).await,
                false => None,
            };
            let outcome = match hidden {
                Some(outcome) => outcome,
                None => parts.pass_gate(&*strategy, purchase, options, deadline).await,
            };
            // Also when the buyer waits no more: the breakers count the outcome.
            permits.ended(&outcome);
            drop(admitted);
            gate.set("outcome", outcome.as_str());
            outcome
        };
        let task = self.parts.tasks.spawn(work.instrument(request.trace.log_span()));
        let outcome = match tokio::time::timeout_at(started + self.parts.deadline, task).await {
            Ok(Ok(outcome)) => outcome,
            // A panic in a gate: whether its write went through is for the ledger to say.
            Ok(Err(_)) => Outcome::Unknown(Doubt::BrokenOff),
            Err(_) => Outcome::Unknown(Doubt::StillRunning),
        };
        if let Some(client) = client {
            client.answered();
        }
        outcome
    }
}

impl Parts {
    /// Runs the gate, then publishes and counts the outcome.
    async fn pass_gate(
        &self,
        strategy: &dyn Strategy,
        purchase: Purchase,
        options: Options,
        deadline: Instant,
    ) -> Outcome {
        let (item, quantity) = (purchase.item.id, purchase.quantity);
        let outcome = strategy.purchase_with(purchase, options, deadline).await;
        match &outcome {
            Outcome::Sold(order) | Outcome::Queued(order) => self.hub.order_changed(order),
            // Asking for several units may fail while a single one is left.
            Outcome::Refused(Refusal::SoldOut { asked_at }) if quantity == Quantity::ONE => {
                self.sold_out.learn(item, *asked_at);
            }
            _ => {}
        }
        outcome
    }
}

/// Whether the request may have become an order earlier, although it is turned away now. Not when
/// it was turned away before anything was known of it, to spare the service work.
fn hides_an_order(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(Refusal::KeyReused { .. }) => false,
        Outcome::Refused(_) => true,
        Outcome::Unavailable(why) => *why != Unavailable::Overloaded,
        // It may have become one, with its answer still on the way.
        Outcome::Unknown(doubt) => *doubt == Doubt::InProgress,
        _ => false,
    }
}

/// The outcome of a purchase whose route was out of date.
const MOVING: Outcome = Outcome::Unavailable(Unavailable::Moving);

fn no_ledger() -> Outcome {
    Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
