//! What batches see of the arbiter. Its orders are written into a book.

#[path = "../../ledger/src/write/answers.rs"]
mod answers;
pub(crate) mod group_commit;
#[path = "../../ledger/src/write/protocol.rs"]
pub(crate) mod protocol;

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use shop_domain::outcome::Dependency;
use shop_domain::{Doubt, ItemId, OrderStatus, Outcome, Purchase, Unavailable};

pub(crate) use crate::work::item_concurrency::{ItemConcurrency, in_time};
pub(crate) use answers::{Answers, ReadyAnswer};
use group_commit::book::Book;

use crate::sql::{Database, Fault};
use crate::time::Instant;

pub(crate) const UNANSWERED: Outcome = Outcome::Unknown(Doubt::Unanswered(Dependency::Mysql));
pub(crate) const WRITTEN_AS: OrderStatus = OrderStatus::Pending;
/// Connections of the ledger.
const CONNECTIONS: u32 = 8;

/// An order that is written by itself.
pub(crate) struct OrderWrite<'a> {
    pub(crate) purchase: &'a Purchase,
    pub(crate) fence: Option<Fence>,
    pub(crate) stock: StockWrite,
    pub(crate) deadline: Option<Instant>,
}

/// The statement that takes the stock.
pub(crate) enum StockWrite {
    Guarded,
}

/// The fence of an item's lock.
#[derive(Clone, Copy, Debug)]
pub struct Fence {
    pub(crate) token: u64,
}

/// Nothing conflicts here.
#[derive(Clone, Copy, Debug)]
pub enum Conflict {}

impl From<Conflict> for Outcome {
    fn from(_: Conflict) -> Self {
        Self::Unavailable(Unavailable::Contended)
    }
}

pub(crate) type Answer = Result<Outcome, Conflict>;

/// The result of one try of a transaction.
pub(crate) enum Attempt {
    Done(Answer),
    Again(Fault),
    CommitLost,
    CallLost,
}

/// The arbiter. Clones share the book.
#[derive(Clone)]
pub struct Arbiter {
    pub(crate) pool: Database,
    pub(crate) shards: Shards,
    pub(crate) metrics: Metrics,
    pub(crate) concurrency: ItemConcurrency,
    pub(crate) book: Arc<Book>,
}

/// Where items are: together.
#[derive(Clone)]
pub(crate) struct Shards;

/// The metrics of batches.
#[derive(Clone, Default)]
pub(crate) struct Metrics {
    pub(crate) batch_suspects: Gauge,
    pub(crate) batch_size: NoHistogram,
    pub(crate) batch_items: NoHistogram,
}

/// A histogram that keeps nothing.
#[derive(Clone, Default)]
pub(crate) struct NoHistogram;

impl NoHistogram {
    pub(crate) fn observe(&self, _value: f64) {}
}

impl Shards {
    pub(crate) fn queue_of(&self, _item: ItemId, queues: usize) -> Option<usize> {
        queues.checked_sub(1)
    }

    pub(crate) fn are_together(&self, _items: impl Iterator<Item = ItemId>) -> bool {
        true
    }
}

impl Arbiter {
    pub(crate) fn new(book: Arc<Book>) -> Self {
        Self {
            pool: Database,
            shards: Shards,
            metrics: Metrics::default(),
            concurrency: ItemConcurrency::new(CONNECTIONS),
            book,
        }
    }

    pub(crate) async fn write(&self, write: &OrderWrite<'_>) -> Answer {
        if is_late(write.deadline) {
            return Ok(Outcome::Unavailable(Unavailable::Contended));
        }
        self.book.pause().await;
        Ok(self.book.write_alone(write.purchase))
    }

    pub(crate) fn count_refusal(&self, _purchase: &Purchase, _answer: &Answer) {}
}

pub(crate) fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}
