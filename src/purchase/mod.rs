//! The purchase path, which is the same for every strategy.
//!
//! [`Purchases::buy`] takes five steps, each in a file of its own:
//!
//! 1. *find* the item, and the strategy that decides;
//! 2. *check* what can be said without the strategy: the sale's window, the ticket, the buyer's
//!    limit, "sold out" from memory;
//! 3. *admit* the purchase: one permit for the circuit breakers, the load and the request's key;
//! 4. pass the *gate*, which finishes whether or not the buyer still waits;
//! 5. ask for an *earlier* request with the same key where the purchase ends without an order.
//!
//! The key of a retry is looked up last, because most keys are new: the unique key of the ledger
//! finds an earlier order of a request that reaches it, so only a request that is turned away has
//! to be asked about.

mod admit;
mod check;
mod earlier;
mod find;
mod finishing;
mod gate;
mod join_or_poll;
mod keys;
mod load_shedder;
mod offers;
mod requests;
mod reserve;
mod sold_out;
pub mod waiting_room;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::live::{Hub, OutcomeCounts};
use gates::redis_store::Queue;
use gates::{Options, Strategies, Strategy};
use ledger::breaker::Breakers;
use ledger::write::GroupCommit;
use shop_domain::outcome::Dependency;
use shop_domain::{
    Cents, Clock, ItemId, Outcome, Quantity, RequestKey, Trace, Unavailable, UserId,
};
use shop_metrics::Metrics;

use admit::PurchasePermit;
use earlier::Cover;
use find::{Gate, Sale, Source};

pub use admit::Admission;
pub use find::Items;
pub use keys::{KeyReader, Keys};
pub use load_shedder::ItemLimits;
pub use offers::AcceptOffer;
pub use requests::{ANNOUNCE_AFTER, Announcer, Requests};
pub use reserve::{LineRequest, ReservationRequest};
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
    parts: Arc<PurchaseParts>,
}

/// The parts of the purchase path.
pub struct PurchaseParts {
    pub strategies: Strategies,
    /// The gate of units that are offered to buyers who waited.
    pub accept_offer: Arc<dyn Strategy>,
    /// Writes the orders of reservations.
    pub group_commit: GroupCommit,
    /// Looks up the results of earlier requests.
    pub keys: Keys,
    /// The orders that are on their way to the ledger.
    pub queue: Queue,
    /// The circuit breakers of the servers.
    pub breakers: Breakers,
    /// Limits the purchases that run at once.
    pub admission: Admission,
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
    pub fn new(parts: PurchaseParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Buys, or says why not. When the wait runs out the answer is `Unknown` and the purchase
    /// still finishes; dropping the returned future does not stop it either.
    pub async fn buy(&self, request: PurchaseRequest) -> Outcome {
        self.buy_from(&request, Source::Stock).await
    }

    /// The five steps: an order takes its units from the stock, or the unit of an offer.
    async fn buy_from(&self, request: &PurchaseRequest, source: Source) -> Outcome {
        let started = Instant::now();
        let span = request.trace.span("admission");
        let sale = match self.find(request, source).await {
            Ok(sale) => sale,
            Err(outcome) => return outcome,
        };
        let admitted = self.check_and_admit(request, &sale).await;
        drop(span);
        let mut outcome = match admitted {
            Ok((gate, amount, permit)) => {
                self.pass_gate(request, &sale, gate, amount, permit, started).await
            }
            Err(outcome) => outcome,
        };
        if let Some(key) = &request.key
            && Cover::Answer(&outcome).may_hide_an_order()
            && let _span = request.trace.span("earlier request")
            && let Some(found) =
                Box::pin(self.earlier(request, key, &sale.item, &outcome, None)).await
        {
            outcome = found;
        }
        self.count(&sale, &outcome, started);
        outcome
    }

    /// Steps 2 and 3, or the outcome of the first that fails.
    async fn check_and_admit<'a>(
        &self,
        request: &PurchaseRequest,
        sale: &Sale<'a>,
    ) -> Result<(Gate<'a>, Cents, PurchasePermit), Outcome> {
        let gate = sale.gate.clone()?;
        let amount = self.check(request, sale).await?;
        let permit = self.admit(request, sale, gate)?;
        Ok((gate, amount, permit))
    }

    /// Counts the outcome of a purchase whose strategy is known.
    fn count(&self, sale: &Sale<'_>, outcome: &Outcome, started: Instant) {
        let Ok(gate) = &sale.gate else { return };
        let seconds = started.elapsed().as_secs_f64();
        self.parts.metrics.purchase_ended(gate.card.name, outcome.as_str(), seconds);
        self.parts.outcome_counts.count(sale.item.id, outcome);
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

    /// The locks of all strategies, each once.
    #[must_use]
    pub fn locks(&self) -> Vec<Arc<dyn leaselock::Mutex>> {
        self.parts.strategies.locks()
    }

    /// Reads an item again and forgets that it is sold out, after an edit, a cancellation or an
    /// expiry.
    pub fn item_changed(&self, item: ItemId) {
        self.parts.items.forget(item);
        self.parts.sold_out.clear(item);
    }
}

/// The outcome of a purchase whose ledger does not answer.
const NO_LEDGER: Outcome = Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql));
