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

use crate::domain::outcome::Dependency;
use crate::domain::window::Phase;
use crate::domain::{
    Cents, Clock, Doubt, Item, ItemId, ItemKind, Look, OrderId, Outcome, Purchase, Quantity,
    Refusal, RequestKey, Span, Trace, Unavailable, UserId,
};
use crate::live::{Hub, OutcomeCounts};
use crate::metrics::Metrics;
use crate::store::breaker::Breakers;
use crate::store::redis::Queue;
use crate::strategy::{Breaks, Card, Options, Strategies, Strategy};

use breaker_permits::BreakerPermits;
use items::Found;

pub use admission::Admission;
pub use items::Items;
pub use keys::{KeyReader, KeyState, Keys, NotLookedUp};
pub use offers::AcceptOffer;
pub use requests::{ANNOUNCE_AFTER, Announcer, Requests};
pub use sold_out::SoldOut;
pub use waiting_room::WaitingRoom;

/// The request of a purchase.
#[derive(Clone, Debug)]
pub struct PurchaseRequest {
    /// The buyer.
    pub buyer: UserId,
    /// The item.
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

/// The parts of the purchase path.
pub struct Parts {
    /// The strategies.
    pub strategies: Strategies,
    /// The gate of units that are offered to buyers who waited.
    pub accept_offer: Arc<dyn Strategy>,
    /// Looks up the results of earlier requests.
    pub keys: Keys,
    /// The orders that are on their way to the ledger.
    pub queue: Queue,
    /// The items, a moment old.
    pub items: Items,
    /// The items that are known to be sold out.
    pub sold_out: SoldOut,
    /// The hub for events.
    pub hub: Hub,
    /// Counts outcomes by item.
    pub outcome_counts: OutcomeCounts,
    /// Counts outcomes by strategy.
    pub metrics: Metrics,
    /// The wall clock.
    pub clock: Clock,
    /// Running purchases, which a stop waits for.
    pub tasks: TaskTracker,
    /// The circuit breakers of the servers.
    pub breakers: Breakers,
    /// Limits the purchases that run at once.
    pub admission: Admission,
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
        let (id, has_queue) = (item.id, item.has_queue);
        let resolved = self.resolve(&request, &item);
        let card = resolved.as_ref().ok().map(|(card, _)| *card);
        let mut outcome = match resolved {
            Ok((card, strategy)) => match self.check_eligibility(&request, &item) {
                Ok(amount) => {
                    self.run(&request, item, amount, (card, strategy), (started, admission)).await
                }
                Err(outcome) => outcome,
            },
            Err(outcome) => outcome,
        };
        if let Some(key) = &request.key
            && hides_an_order(&outcome)
            && let _span = request.trace.span("earlier request")
            && let Some(earlier) = Box::pin(self.earlier(&request, key, has_queue, &outcome)).await
        {
            outcome = earlier;
        }
        if let Some(card) = card {
            let seconds = started.elapsed().as_secs_f64();
            self.parts.metrics.purchase_ended(card.name, outcome.as_str(), seconds);
            self.parts.outcome_counts.count(id, &outcome);
        }
        outcome
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
        &self.parts.strategies
    }

    /// Reads an item again and forgets that it is sold out, after an edit, a cancellation or an
    /// expiry.
    pub fn item_changed(&self, item: ItemId) {
        self.parts.items.forget(item);
        self.parts.sold_out.clear(item);
    }

    async fn find(&self, request: &PurchaseRequest) -> Result<Arc<Item>, Outcome> {
        match self.parts.items.find(request.item).await {
            Ok(Found::Fresh(item)) => Ok(item),
            Ok(Found::Nothing) => Err(Outcome::Refused(Refusal::ItemNotFound)),
            // Nothing comes back while the ledger is away; a key asks for more than that.
            Ok(Found::Earlier { sold_out: true, .. }) if request.key.is_none() => {
                self.parts.metrics.sold_out_from_memory.inc();
                Err(Outcome::Refused(Refusal::SoldOut))
            }
            Ok(Found::Earlier { .. }) | Err(_) => Err(no_ledger()),
        }
    }

    /// Finds the strategy, and refuses what can never be sold this way.
    fn resolve(
        &self,
        request: &PurchaseRequest,
        item: &Item,
    ) -> Result<(&'static Card, &Arc<dyn Strategy>), Outcome> {
        let default = request.strategy == "default";
        let name = if default { &item.strategy } else { &request.strategy };
        let found = self.parts.strategies.find(name);
        let found = found.ok_or(Outcome::Refused(Refusal::StrategyNotFound))?;
        let card = found.card;
        if !request.options.is_default() && !card.takes_options {
            return Err(Outcome::Refused(Refusal::OptionsNotTaken));
        }
        let is_safe = card.breaks_with_options(&request.options) == Breaks::Never;
        if item.kind == ItemKind::Shop && !is_safe {
            return Err(Outcome::Refused(Refusal::UnsafeStrategy));
        }
        let unavailable = Outcome::Unavailable(Unavailable::StrategyUnavailable);
        Ok((card, found.strategy.as_ref().ok_or(unavailable)?))
    }

    /// Checks the price and the state of the sale, and answers the price of all units.
    fn check_sale(&self, request: &PurchaseRequest, item: &Item) -> Result<Cents, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let Some(amount) = item.price.times(request.quantity) else {
            return refuse(Refusal::AmountOverflow);
        };
        match item.window.phase(self.parts.clock.now()) {
            Phase::Upcoming => {
                let starts_at = item.window.starts_at();
                refuse(Refusal::SaleNotStarted { starts_at })
            }
            Phase::Ended => refuse(Refusal::SaleEnded),
            Phase::Open if item.paused => refuse(Refusal::SalePaused),
            Phase::Open => Ok(amount),
        }
    }

    /// Checks everything that can be said without the gate, and answers the price of all units.
    fn check_eligibility(&self, request: &PurchaseRequest, item: &Item) -> Result<Cents, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let amount = self.check_sale(request, item)?;
        if item.waiting_room {
            let (ticket, now) = (request.ticket.as_deref(), self.parts.clock.now());
            let admitted = self.parts.waiting_room.admit(ticket, item.id, request.buyer, now);
            admitted.map_err(Outcome::Refused)?;
        }
        if request.quantity.units() > item.per_buyer_limit {
            return refuse(Refusal::QuantityOverLimit { limit: item.per_buyer_limit });
        }
        if self.parts.sold_out.is_known(item.id) {
            self.parts.metrics.sold_out_from_memory.inc();
            return refuse(Refusal::SoldOut);
        }
        Ok(amount)
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
        let permits = match BreakerPermits::acquire(&self.parts.breakers, card) {
            Ok(permits) => permits,
            Err(outcome) => return outcome,
        };
        let key = request.key.as_ref();
        let admitted = match self.parts.admission.enter(request.buyer, item.id, key) {
            Ok(admitted) => admitted,
            Err(outcome) => return outcome,
        };
        drop(admission);
        let mut gate = request.trace.span("gate");
        gate.set("strategy", card.name);
        let order_id = OrderId::generate();
        // The database ends the hold, so it begins by the same clock.
        let created_at = self.parts.clock.ledger_now();
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
            look: Look::default(),
        };
        let (parts, strategy) = (Arc::clone(&self.parts), Arc::clone(strategy));
        let (options, deadline) = (request.options, started + self.parts.gate_wait);
        let client = admitted.client();
        let work = async move {
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            let hidden = match earlier::may_be_hidden(&purchase, card) {
                true => Box::pin(earlier::found(&parts, &purchase, card)).await,
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
        let (item, quantity, look) = (purchase.item.id, purchase.quantity, purchase.look.clone());
        let outcome = strategy.purchase_with(purchase, options, deadline).await;
        match &outcome {
            Outcome::Sold(order) | Outcome::Queued(order) => self.hub.order_changed(order),
            // Asking for several units may fail while a single one is left.
            Outcome::Refused(Refusal::SoldOut) if quantity == Quantity::ONE => {
                self.sold_out.learn(item, look.at());
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

fn no_ledger() -> Outcome {
    Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql))
}
