//! The lab's load generator: buys one item inside this process with a fixed number of purchases and
//! a fixed concurrency, and measures each.
//!
//! A purchase passes the same admission and gates as one over HTTP. Each has a key of its own,
//! which finds its order in the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::Chosen;
use crate::purchase::{PurchaseRequest, Purchases};
use shop_domain::{ItemId, OrderId, Outcome, Quantity, RequestKey, Trace, UserId};

/// One load: what is bought, by how many buyers, at which concurrency.
#[derive(Clone)]
pub struct LoadGenerator {
    /// The purchases of the service.
    pub purchases: Purchases,
    /// The item that is bought.
    pub item: ItemId,
    /// The strategy with its options.
    pub chosen: Chosen,
    /// Units of each purchase.
    pub quantity: Quantity,
    /// Buyers; request `n` is made by buyer `n` modulo this number.
    pub buyers: u32,
    /// Purchases in all.
    pub requests: u32,
    /// Purchases that run at once.
    pub concurrency: u32,
    /// The time after which no further purchase is sent.
    pub time_max: Duration,
}

/// The answer to one purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request, from 0.
    pub request: u32,
    /// The kind of the answer.
    pub kind: AnswerKind,
    /// Time until the answer, in microseconds.
    pub micros: u64,
    /// Microseconds from the start of the load until the answer.
    pub answered_at_us: u64,
}

/// The kinds of answers that the evaluation tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// An order was made or queued.
    Accepted {
        /// The order's id.
        order: OrderId,
        /// Whether it is queued, and not durable yet.
        queued: bool,
    },
    /// Refused for good, with the code of the refusal; nothing changed.
    Refused(&'static str),
    /// Not served; nothing changed, and the request may be sent again.
    Unavailable,
    /// The outcome is not known: an order may have been made.
    Unknown,
}

/// Counts of the answers so far, which can be read while the load runs.
#[derive(Debug, Default)]
pub struct AnswerCounts {
    /// Purchases that were accepted.
    pub accepted: AtomicU64,
    /// Purchases that were refused.
    pub refused: AtomicU64,
    /// Purchases that were not served.
    pub unavailable: AtomicU64,
    /// Purchases whose outcome is not known.
    pub unknown: AtomicU64,
}

impl AnswerCounts {
    /// The counts of accepted, refused, unavailable and unknown, in this order.
    #[must_use]
    pub fn read(&self) -> [u64; 4] {
        [&self.accepted, &self.refused, &self.unavailable, &self.unknown]
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn add(&self, kind: AnswerKind) {
        let count = match kind {
            AnswerKind::Accepted { .. } => &self.accepted,
            AnswerKind::Refused(_) => &self.refused,
            AnswerKind::Unavailable => &self.unavailable,
            AnswerKind::Unknown => &self.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The buyer of a request: they take turns.
#[must_use]
pub fn buyer(request: u32, buyers: u32) -> i64 {
    i64::from(request % buyers) + 1
}

/// The idempotency key of a request: unique among the purchases of a cell, which has its own item.
#[must_use]
pub fn key(request: u32) -> RequestKey {
    RequestKey::parse(&format!("lab-{request}")).expect("a handful of plain characters")
}

impl LoadGenerator {
    /// Sends all purchases and waits for the last answer. Dropping the future stops sending;
    /// purchases under way finish by themselves.
    pub async fn send_all(self, counts: Arc<AnswerCounts>) -> Vec<Answer> {
        let began = Instant::now();
        let next = Arc::new(AtomicU32::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency.min(self.requests) {
            let (load, next, counts) = (self.clone(), Arc::clone(&next), Arc::clone(&counts));
            workers.spawn(async move { load.work(&next, &counts, began).await });
        }
        workers.join_all().await.into_iter().flatten().collect()
    }

    async fn work(&self, next: &AtomicU32, counts: &AnswerCounts, began: Instant) -> Vec<Answer> {
        let mut answers = Vec::new();
        while began.elapsed() < self.time_max {
            let request = next.fetch_add(1, Ordering::Relaxed);
            if request >= self.requests {
                break;
            }
            let started = Instant::now();
            let kind = kind_of(&self.purchases.buy(self.request(request)).await);
            let ended = Instant::now();
            counts.add(kind);
            let (micros, answered_at_us) = (between(started, ended), between(began, ended));
            answers.push(Answer { request, kind, micros, answered_at_us });
        }
        answers
    }

    fn request(&self, request: u32) -> PurchaseRequest {
        PurchaseRequest {
            buyer: UserId::new(buyer(request, self.buyers)).expect("counted from one"),
            item: self.item,
            quantity: self.quantity,
            strategy: self.chosen.card.name.to_owned(),
            options: self.chosen.options,
            key: Some(key(request)),
            ticket: None,
            trace: Trace::default(),
        }
    }
}

/// The microseconds between two moments.
fn between(earlier: Instant, later: Instant) -> u64 {
    u64::try_from((later - earlier).as_micros()).unwrap_or(u64::MAX)
}

fn kind_of(outcome: &Outcome) -> AnswerKind {
    match outcome {
        Outcome::Sold(order) | Outcome::Replayed(order) => {
            AnswerKind::Accepted { order: order.id, queued: false }
        }
        Outcome::Queued(order) => AnswerKind::Accepted { order: order.id, queued: true },
        Outcome::Refused(refusal) => AnswerKind::Refused(refusal.code()),
        Outcome::Unavailable(_) => AnswerKind::Unavailable,
        Outcome::Unknown(_) => AnswerKind::Unknown,
    }
}
