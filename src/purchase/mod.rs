//! What every purchase does, whatever the strategy.
//!
//! [`Purchases::buy`] in order: find the item and the strategy; judge the window; answer "sold out"
//! from memory if that is known; ask the breakers and admission; run the gate on a task of its own,
//! which finishes whether or not the buyer still waits; where that ends without an order, ask what
//! became of the request's key before (`earlier.rs`); tell the outcome.
//!
//! A retry's key is looked up last, because most keys are new: the arbiter's unique key finds those
//! that reach it, and only a request that would be turned away has to be asked about.

mod admission;
mod calls;
mod earlier;
mod items;
mod keys;
mod pace;
mod requests;
pub mod room;
mod sold_out;
mod standing;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::arbiter;
use crate::domain::outcome::Dependency;
use crate::domain::window::Phase;
use crate::domain::{
    Clock, Doubt, Item, ItemId, ItemKind, OrderId, Outcome, Purchase, Quantity, Refusal,
    RequestKey, Unavailable, UserId,
};
use crate::live::{Hub, Tally};
use crate::metrics::Metrics;
use crate::store::breaker::Breakers;
use crate::store::redis::Queue;
use crate::strategy::{Breaks, Card, Options, Request, Strategies};

use calls::Calls;
use items::Found;

pub use admission::Admission;
pub use items::Items;
pub use keys::{KeyReader, Keys, NotLookedUp, Trace};
pub use requests::{ANNOUNCE_AFTER, Announcer, Requests};
pub use room::Room;
pub use sold_out::SoldOut;

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Who.
    pub buyer: UserId,
    /// What.
    pub item: ItemId,
    /// How many units.
    pub quantity: Quantity,
    /// The strategy's name, or `default`.
    pub strategy: String,
    /// The refinements, if the request had any.
    pub options: Options,
    /// The caller's key, if it sent one.
    pub key: Option<RequestKey>,
    /// The ticket of the item's waiting room, if it has one.
    pub ticket: Option<String>,
}

/// The purchase path. Clones share everything.
#[derive(Clone)]
pub struct Purchases {
    parts: Arc<Parts>,
}

/// What the purchase path works with.
pub struct Parts {
    /// The strategies.
    pub strategies: Strategies,
    /// What became of earlier requests.
    pub keys: Keys,
    /// The orders that are on their way to the ledger.
    pub queue: Queue,
    /// The items, a moment old.
    pub items: Items,
    /// What is known to be sold out.
    pub sold_out: SoldOut,
    /// Where events go.
    pub hub: Hub,
    /// Where outcomes are counted by item.
    pub tally: Tally,
    /// Where outcomes are counted.
    pub metrics: Metrics,
    /// The wall clock.
    pub clock: Clock,
    /// Running purchases, which a stop waits for.
    pub tasks: TaskTracker,
    /// Who of the servers answers.
    pub breakers: Breakers,
    /// The door.
    pub admission: Admission,
    /// The line before it, where an item has one.
    pub room: Room,
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
    pub async fn buy(&self, wish: Wish) -> Outcome {
        let started = Instant::now();
        let item = match self.find(&wish).await {
            Ok(item) => item,
            Err(outcome) => return outcome,
        };
        let (id, has_queue) = (item.id, item.has_queue);
        let chosen = self.choose(&wish, &item);
        let card = chosen.as_ref().ok().copied();
        let mut outcome = match chosen.and_then(|card| Ok((self.judge(&wish, item, card)?, card))) {
            Ok((purchase, card)) => self.run(&wish, purchase, card, started).await,
            Err(outcome) => outcome,
        };
        if let Some(key) = &wish.key
            && hides_an_order(&outcome)
            && let Some(earlier) = Box::pin(self.earlier(&wish, key, has_queue, &outcome)).await
        {
            outcome = earlier;
        }
        if let Some(card) = card {
            let seconds = started.elapsed().as_secs_f64();
            self.parts.metrics.purchase_ended(card.name, outcome.word(), seconds);
            self.parts.tally.count(id, &outcome);
        }
        outcome
    }

    /// The items that purchases are judged by.
    #[must_use]
    pub fn items(&self) -> &Items {
        &self.parts.items
    }

    /// What became of the purchases of each item.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.parts.tally
    }

    /// The strategies.
    #[must_use]
    pub fn strategies(&self) -> &Strategies {
        &self.parts.strategies
    }

    /// An edit, a cancellation or an expiry changed an item: look at it afresh.
    pub async fn item_changed(&self, item: ItemId) {
        self.parts.items.forget(item).await;
        self.parts.sold_out.clear(item);
    }

    async fn find(&self, wish: &Wish) -> Result<Arc<Item>, Outcome> {
        match self.parts.items.find(wish.item).await {
            Ok(Found::Fresh(item)) => Ok(item),
            Ok(Found::Nothing) => Err(Outcome::Refused(Refusal::ItemNotFound)),
            // Nothing comes back while the ledger is away; a key asks for more than that.
            Ok(Found::Earlier { sold_out: true, .. }) if wish.key.is_none() => {
                self.parts.metrics.sold_out_from_memory.inc();
                Err(Outcome::Refused(Refusal::SoldOut))
            }
            Ok(Found::Earlier { .. }) | Err(_) => Err(no_ledger()),
        }
    }

    /// Finds the strategy, and refuses what can never be sold this way.
    fn choose(&self, wish: &Wish, item: &Item) -> Result<&'static Card, Outcome> {
        let name = if wish.strategy == "default" { &item.strategy } else { &wish.strategy };
        let found = self.parts.strategies.find(name);
        let (card, built) = found.ok_or(Outcome::Refused(Refusal::StrategyNotFound))?;
        if !wish.options.is_default() && !card.takes_options {
            return Err(Outcome::Refused(Refusal::OptionsNotTaken));
        }
        let safe = card.breaks_with_options(&wish.options) == Breaks::Never;
        if item.kind == ItemKind::Shop && !safe {
            return Err(Outcome::Refused(Refusal::UnsafeStrategy));
        }
        if built.is_none() {
            return Err(Outcome::Unavailable(Unavailable::StrategyUnavailable));
        }
        Ok(card)
    }

    /// Everything that can be said without the gate.
    fn judge(&self, wish: &Wish, item: Arc<Item>, card: &Card) -> Result<Purchase, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let now = self.parts.clock.now();
        // The database ends the hold, so it begins by the same clock.
        let created_at = self.parts.clock.ledger_now();
        let order_id = OrderId::generate();
        let Some(amount) = item.price.times(wish.quantity) else {
            return refuse(Refusal::AmountOverflow);
        };
        let hold = time::Duration::seconds(item.hold_seconds.into());
        let purchase = Purchase {
            order_id,
            buyer: wish.buyer,
            quantity: wish.quantity,
            amount,
            key: wish.key.clone().unwrap_or_else(|| RequestKey::of_order(order_id)),
            strategy: card.name,
            created_at,
            expires_at: created_at + hold,
            item,
        };
        let item = &purchase.item;
        match item.window.phase(now) {
            Phase::Upcoming => {
                let starts_at = item.window.starts_at();
                return refuse(Refusal::SaleNotStarted { starts_at });
            }
            Phase::Ended => return refuse(Refusal::SaleEnded),
            Phase::Open if item.paused => return refuse(Refusal::SalePaused),
            Phase::Open => {}
        }
        if item.waiting_room {
            let admitted = self.parts.room.admit(wish.ticket.as_deref(), item.id, wish.buyer, now);
            admitted.map_err(Outcome::Refused)?;
        }
        if wish.quantity.units() > item.per_buyer_limit {
            return refuse(Refusal::QuantityOverLimit { limit: item.per_buyer_limit });
        }
        if self.parts.sold_out.is_known(item.id) {
            self.parts.metrics.sold_out_from_memory.inc();
            return refuse(Refusal::SoldOut);
        }
        Ok(purchase)
    }

    /// Admission, then the gate on a task of its own.
    async fn run(
        &self,
        wish: &Wish,
        purchase: Purchase,
        card: &'static Card,
        started: Instant,
    ) -> Outcome {
        let calls = match Calls::begin(&self.parts.breakers, card) {
            Ok(calls) => calls,
            Err(outcome) => return outcome,
        };
        let admitted = match self.parts.admission.enter(&purchase) {
            Ok(admitted) => admitted,
            Err(outcome) => return outcome,
        };
        let parts = Arc::clone(&self.parts);
        let client = admitted.client();
        let deadline = started + self.parts.gate_wait;
        let request = Request { purchase, options: wish.options, deadline };
        let task = self.parts.tasks.spawn(async move {
            let outcome = arbiter::by(deadline, async {
                // Boxed, here and below: what is rarely awaited would make every purchase's future
                // larger, and those are moved.
                if earlier::may_be_hidden(&request.purchase, card)
                    && let Some(outcome) =
                        Box::pin(earlier::found(&parts, &request.purchase, card)).await
                {
                    return outcome;
                }
                gate(&parts, &request).await
            })
            .await;
            // Also when its buyer has gone: how it ended is what its servers are judged by.
            calls.ended(&outcome);
            drop(admitted);
            outcome
        });
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

/// Runs the gate and tells everyone who wants to know.
async fn gate(parts: &Parts, request: &Request) -> Outcome {
    let item = request.purchase.item.id;
    let built = parts.strategies.find(request.purchase.strategy).and_then(|(_, built)| built);
    let Some(strategy) = built else {
        return Outcome::Unavailable(Unavailable::StrategyUnavailable);
    };
    let outcome = strategy.purchase(request).await;
    match &outcome {
        Outcome::Sold(order) | Outcome::Queued(order) => parts.hub.order_changed(order),
        // Asking for several units may fail while a single one is left.
        Outcome::Refused(Refusal::SoldOut) if request.purchase.quantity == Quantity::ONE => {
            parts.sold_out.learn(item);
        }
        _ => {}
    }
    outcome
}
