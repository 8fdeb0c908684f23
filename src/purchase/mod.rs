//! The purchase path, which is the same for every strategy and for every order.
//!
//! An order has one line or several, all or none: a single purchase is an order of one line, and so is the
//! acceptance of an offer, whose unit comes from the waiting list. Each takes five steps, each in a file of its own:
//!
//! 1. *find* the items, and the strategy that decides;
//! 2. *check* what can be said without the strategy: the sale's window, the ticket, the buyer's
//!    limit, "sold out" from memory;
//! 3. *admit* each line: one permit for the circuit breakers, the load and the request's key;
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
mod requests;
mod sold_out;
pub mod waiting_room;

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::live::{Hub, OutcomeCounts};
use gates::redis_store::Queue;
use gates::{Options, Strategies};
use ledger::breaker::Breakers;
use ledger::write::GroupCommit;
use shop_domain::order::LINES_MAX;
use shop_domain::outcome::Dependency;
use shop_domain::{Clock, ItemId, Outcome, Quantity, RequestKey, Trace, Unavailable, UserId};
use shop_metrics::Metrics;

use find::{Line, Source};

pub use admit::Admission;
pub use find::Items;
pub use keys::{KeyReader, Keys};
pub use load_shedder::ItemLimits;
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

/// The request of a reservation: an order of one or several items, which `mysql-batch` writes.
#[derive(Clone, Debug)]
pub struct ReservationRequest {
    pub buyer: UserId,
    /// From 1 to [`LINES_MAX`] lines, each of another item.
    pub lines: Vec<LineRequest>,
    /// How long the unpaid order keeps its units: at most as long as each of its items allows.
    pub hold_seconds: Option<u32>,
    /// The caller's key, if it sent one.
    pub key: Option<RequestKey>,
    pub trace: Trace,
}

/// A line of an order that is asked for.
#[derive(Clone, Debug)]
pub struct LineRequest {
    pub item: ItemId,
    pub quantity: Quantity,
    /// The ticket of the item's waiting room, if it has one.
    pub ticket: Option<String>,
}

/// An order that is asked for, whoever asks.
struct OrderRequest<'a> {
    buyer: UserId,
    /// In the sequence of their items, in which the ledger locks their rows.
    lines: &'a [LineRequest],
    source: Source<'a>,
    hold_seconds: Option<u32>,
    key: Option<&'a RequestKey>,
    trace: &'a Trace,
    /// Whether a refusal names the line that it comes from.
    names_lines: bool,
}

/// One of something for each line of an order. Most orders have one line, and allocate nothing.
type Lines<T> = SmallVec<[T; 1]>;

/// The purchase path. Clones share everything.
#[derive(Clone)]
pub struct Purchases {
    parts: Arc<PurchaseParts>,
}

/// The parts of the purchase path.
pub struct PurchaseParts {
    pub strategies: Strategies,
    /// Writes the orders with several lines.
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
        let line =
            LineRequest { item: request.item, quantity: request.quantity, ticket: request.ticket };
        let order = OrderRequest {
            buyer: request.buyer,
            lines: &[line],
            source: Source::Stock { strategy: &request.strategy, options: request.options },
            hold_seconds: None,
            key: request.key.as_ref(),
            trace: &request.trace,
            names_lines: false,
        };
        self.order(&order).await
    }

    /// Reserves the items of all lines, or says why not. Waits and ends as [`Purchases::buy`].
    ///
    /// # Panics
    /// Without lines, and with too many.
    pub async fn reserve(&self, mut request: ReservationRequest) -> Outcome {
        let lines = request.lines.len();
        assert!((1..=usize::from(LINES_MAX)).contains(&lines), "a reservation has few lines");
        request.lines.sort_unstable_by_key(|line| line.item);
        let order = OrderRequest {
            buyer: request.buyer,
            lines: &request.lines,
            source: Source::Stock { strategy: "mysql-batch", options: Options::default() },
            hold_seconds: request.hold_seconds,
            key: request.key.as_ref(),
            trace: &request.trace,
            names_lines: true,
        };
        self.order(&order).await
    }

    /// Buys the unit that is offered to a buyer who waited, or says why not. Waits and ends as
    /// [`Purchases::buy`].
    pub async fn accept_offer(
        &self,
        buyer: UserId,
        item: ItemId,
        key: Option<RequestKey>,
        trace: Trace,
    ) -> Outcome {
        let order = OrderRequest {
            buyer,
            lines: &[LineRequest { item, quantity: Quantity::ONE, ticket: None }],
            source: Source::Offer,
            hold_seconds: None,
            key: key.as_ref(),
            trace: &trace,
            names_lines: false,
        };
        let outcome = self.order(&order).await;
        if matches!(outcome, Outcome::Sold(_)) {
            self.parts.metrics.waiting.changed("accepted");
            self.parts.hub.waiting_changed(item, buyer);
        }
        outcome
    }

    /// The five steps.
    async fn order(&self, order: &OrderRequest<'_>) -> Outcome {
        let started = Instant::now();
        let span = order.trace.span("admission");
        let mut lines = match self.find(order).await {
            Ok(lines) => lines,
            Err(outcome) => return outcome,
        };
        let admitted = match self.check(order, &mut lines).await {
            Ok(gate) => self.admit(order, gate).map(|permits| (gate, permits)),
            Err(outcome) => Err(outcome),
        };
        drop(span);
        let mut outcome = match admitted {
            Ok((gate, permits)) => self.pass_gate(order, &lines, gate, permits, started).await,
            Err(outcome) => outcome,
        };
        if let Some(key) = order.key
            && earlier::may_be_an_order(&outcome)
            && let _span = order.trace.span("earlier request")
            && let Some(found) = Box::pin(self.earlier(order, key, &lines, &outcome)).await
        {
            outcome = found;
        }
        lines.iter().for_each(|line| self.count(line, &outcome, started));
        outcome
    }

    /// Counts the outcome of a line whose strategy is known.
    fn count(&self, line: &Line<'_>, outcome: &Outcome, started: Instant) {
        let Ok(gate) = &line.gate else { return };
        let seconds = started.elapsed().as_secs_f64();
        self.parts.metrics.purchase_ended(gate.card.name, outcome.as_str(), seconds);
        self.parts.outcome_counts.count(line.item.id, outcome);
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
}

/// The outcome of a purchase whose ledger does not answer.
const NO_LEDGER: Outcome = Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql));

impl OrderRequest<'_> {
    /// The outcome for the whole order, when it comes from the line of `item`.
    fn of_line(&self, outcome: Outcome, item: ItemId) -> Outcome {
        if self.names_lines { outcome.of_line(item) } else { outcome }
    }

    /// The number of lines in the ledger; `None` for a single purchase.
    fn line_count(&self) -> Option<u8> {
        u8::try_from(self.lines.len()).ok().filter(|count| *count > 1)
    }
}
