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
mod gate;
mod join_or_poll;
mod load_shedder;
mod requests;
mod sold_out;
pub mod waiting_room;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::catalog::Catalog;
use crate::live::Hub;
use gates::redis_store::Queue;
use gates::{Options, Strategies};
use ledger::breaker::Breakers;
use ledger::cache::Cache;
use ledger::write::GroupCommit;
use shop_domain::order::LINES_MAX;
use shop_domain::outcome::Dependency;
use shop_domain::{
    Clock, Item, ItemId, OrderId, Outcome, Purchase, Quantity, RequestKey, Trace, Unavailable,
    UserId,
};
use shop_metrics::Metrics;

pub use admit::Admission;
pub use earlier::{KeyReads, key_reads};
pub use load_shedder::ItemLimits;
pub use requests::{ANNOUNCE_AFTER, Announcer, Requests};
pub use sold_out::SoldOut;
pub use waiting_room::WaitingRoom;

/// An order that is asked for, whoever asks.
#[derive(Clone, Debug)]
pub struct OrderRequest {
    pub buyer: UserId,
    /// From 1 to [`LINES_MAX`] lines, each of another item.
    pub lines: Lines<LineRequest>,
    pub source: Source,
    /// How long the unpaid order keeps its units: at most as long as each of its items allows.
    pub hold_seconds: Option<u32>,
    /// The caller's key, if it sent one.
    pub key: Option<RequestKey>,
    /// Where its steps write their spans.
    pub trace: Trace,
}

/// A line of an order that is asked for.
#[derive(Clone, Debug)]
pub struct LineRequest {
    pub item: ItemId,
    /// The number of units.
    pub quantity: Quantity,
    /// The ticket of the item's waiting room, if it has one.
    pub ticket: Option<String>,
}

/// The source of an order's units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The stock, by a strategy.
    Stock {
        /// The strategy's name, or `default`: the item's own.
        strategy: String,
        /// The query parameters that refine a lock strategy.
        options: Options,
    },
    /// The stock of several items, by `mysql-batch`. A refusal names its line.
    Reservation,
    /// The unit that is offered to a buyer who waited.
    Offer,
}

/// One of something for each line of an order. Most orders have one line, and allocate nothing.
pub type Lines<T> = SmallVec<[T; 1]>;

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
    pub keys: KeyReads,
    /// The orders that are on their way to the ledger.
    pub queue: Queue,
    /// The circuit breakers of the servers.
    pub breakers: Breakers,
    /// Limits the purchases that run at once.
    pub admission: Admission,
    pub catalog: Catalog,
    /// How old an item may be.
    pub item_age_max: Duration,
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
    pub fn new(parts: PurchaseParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Takes the five steps for an order, or says why not. When the wait runs out the answer is `Unknown` and the
    /// purchase still finishes; dropping the returned future does not stop it either.
    ///
    /// # Panics
    /// Without lines, and with too many.
    pub async fn order(&self, mut order: OrderRequest) -> Outcome {
        assert!(
            (1..=usize::from(LINES_MAX)).contains(&order.lines.len()),
            "an order has few lines"
        );
        // The ledger locks their rows in this sequence.
        order.lines.sort_unstable_by_key(|line| line.item);
        let outcome = self.take_steps(&order).await;
        if order.source == Source::Offer && matches!(outcome, Outcome::Sold(_)) {
            self.parts.metrics.waiting.changed("accepted");
            self.parts.hub.waiting_changed(order.lines[0].item, order.buyer);
        }
        outcome
    }

    async fn take_steps(&self, order: &OrderRequest) -> Outcome {
        let started = Instant::now();
        let span = order.trace.span("admission");
        let items = match self.find(order).await {
            Ok(items) => items,
            Err(outcome) => return outcome,
        };
        let gate = self.gate_of(order, &items[0]);
        let admitted = match self.check(order, &items, gate.clone()).await {
            Ok(gate) => {
                let PurchaseParts { admission, breakers, .. } = &*self.parts;
                admission.admit(order, breakers, gate.card).map(|permits| (gate, permits))
            }
            Err(outcome) => Err(outcome),
        };
        drop(span);
        let mut outcome = match admitted {
            Ok((gate, permits)) => self.pass_gate(order, &items, gate, permits, started).await,
            Err(outcome) => outcome,
        };
        if order.key.is_some()
            && earlier::may_be_an_order(&outcome)
            && let _span = order.trace.span("earlier request")
            && let Some(found) = Box::pin(self.earlier(order, &items, &outcome)).await
        {
            outcome = found;
        }
        // Without a strategy there is nothing to count by.
        let Ok(gate) = gate else { return outcome };
        let seconds = started.elapsed().as_secs_f64();
        for item in &items {
            self.parts.metrics.purchase_ended(gate.card.name, outcome.as_str(), seconds);
            self.parts.outcome_counts.count(item.id, &outcome);
        }
        outcome
    }

    /// Makes the purchases of all lines, which have one key and the same times.
    fn purchases(
        &self,
        order: &OrderRequest,
        items: &[Arc<Item>],
        strategy: &'static str,
        trace: &Trace,
    ) -> Lines<Purchase> {
        let line_count = order.line_count();
        let mut order_id = OrderId::generate();
        if line_count.is_some() {
            order_id = order_id.line(0);
        }
        let key = order.key.clone().unwrap_or_else(|| RequestKey::of_order(order_id));
        let holds = items.iter().map(|item| item.hold_seconds);
        let hold = holds.chain(order.hold_seconds).min().unwrap_or_default();
        // The ledger ends the hold, so it begins by the same clock.
        let created_at = self.parts.clock.ledger_now();
        let expires_at = created_at + time::Duration::seconds(hold.into());
        let purchase = |number: u8, line: &LineRequest, item: &Arc<Item>| Purchase {
            order_id: if number == 0 { order_id } else { order_id.line(number) },
            item: Arc::clone(item),
            buyer: order.buyer,
            quantity: line.quantity,
            // An amount above the largest one is refused before.
            amount: item.price.times(line.quantity).unwrap_or(item.price),
            key: key.clone(),
            strategy,
            created_at,
            expires_at,
            trace: trace.clone(),
            line_count,
            counts_refusals: line_count.is_none(),
        };
        let lines = order.lines.iter().zip(items);
        (0..).zip(lines).map(|(number, (line, item))| purchase(number, line, item)).collect()
    }

    /// The outcomes of each item's purchases.
    pub fn outcome_counts(&self) -> &OutcomeCounts {
        &self.parts.outcome_counts
    }

    /// The strategies.
    pub fn strategies(&self) -> &Strategies {
        &self.parts.strategies
    }

    /// Reads an item again and forgets that it is sold out, after an edit, a cancellation or an
    /// expiry.
    pub fn item_changed(&self, item: ItemId) {
        self.parts.catalog.forget(item);
        self.parts.sold_out.clear(item);
    }
}

/// Microseconds, for a counter that is changed without a lock.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The outcome of a purchase whose ledger does not answer.
const NO_LEDGER: Outcome = Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql));

impl OrderRequest {
    /// An order whose hold is as long as its items allow.
    pub fn new(
        buyer: UserId,
        lines: impl Into<Lines<LineRequest>>,
        source: Source,
        key: Option<RequestKey>,
        trace: Trace,
    ) -> Self {
        Self { buyer, lines: lines.into(), source, hold_seconds: None, key, trace }
    }

    fn options(&self) -> Options {
        match self.source {
            Source::Stock { options, .. } => options,
            Source::Reservation | Source::Offer => Options::default(),
        }
    }

    /// The outcome for the whole order, when it comes from the line of `item`.
    fn of_line(&self, outcome: Outcome, item: ItemId) -> Outcome {
        if self.source == Source::Reservation { outcome.of_line(item) } else { outcome }
    }

    /// The number of lines in the ledger; `None` for a single purchase.
    fn line_count(&self) -> Option<u8> {
        u8::try_from(self.lines.len()).ok().filter(|count| *count > 1)
    }
}

/// Items with counts. Beyond them, those that are bought least are forgotten.
const COUNTED_ITEMS_MAX: usize = 10_000;

/// The number of purchases of one item by [`Outcome::as_str`].
type Counts = BTreeMap<&'static str, u64>;

/// Counts of each item's purchases by outcome, for the operator's console: in this process, since its start. Clones count
/// together. Metrics count by strategy, which bounds their number; here the number of items is bounded.
#[derive(Clone)]
pub struct OutcomeCounts(Cache<ItemId, Arc<Mutex<Counts>>>);

impl Default for OutcomeCounts {
    fn default() -> Self {
        Self(Cache::new(COUNTED_ITEMS_MAX))
    }
}

impl OutcomeCounts {
    /// Counts one purchase of `item` that ended with `outcome`.
    pub fn count(&self, item: ItemId, outcome: &Outcome) {
        let counts = self.0.get_or_insert_with(item, Arc::default);
        *locked(&counts).entry(outcome.as_str()).or_default() += 1;
    }

    /// The number of purchases of `item` by outcome; empty when this process had none.
    pub fn read(&self, item: ItemId) -> BTreeMap<&'static str, u64> {
        self.0.get(item).map(|counts| locked(&counts).clone()).unwrap_or_default()
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::{Doubt, Refusal};

    #[test]
    fn outcomes_are_counted_by_item_and_the_number_of_items_is_bounded() {
        let outcome_counts = OutcomeCounts::default();
        let item = |id: usize| ItemId::new(i64::try_from(id).expect("small")).expect("positive");
        let refused = Outcome::Refused(Refusal::SoldOut { asked_at: None });
        outcome_counts.count(item(1), &refused);
        outcome_counts.count(item(1), &refused);
        outcome_counts.count(item(1), &Outcome::Unknown(Doubt::StillRunning));
        assert_eq!(
            outcome_counts.read(item(1)),
            BTreeMap::from([("outcome_unknown", 1), ("sold_out", 2)])
        );
        assert_eq!(outcome_counts.read(item(2)), BTreeMap::new());
        for id in 1..=2 * COUNTED_ITEMS_MAX {
            outcome_counts.count(item(id), &refused);
        }
        let is_known = |id: &usize| !outcome_counts.read(item(*id)).is_empty();
        let known = (1..=2 * COUNTED_ITEMS_MAX).filter(is_known).count();
        assert!((1..=COUNTED_ITEMS_MAX * 11 / 10).contains(&known), "{known}");
    }
}
