//! The lab's load generator: buys one item inside this process with a fixed number of purchases and
//! a fixed concurrency, and measures each.
//!
//! A purchase passes the same admission and gates as one over HTTP. Each has a key of its own,
//! which finds its order in the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ledger_audit::{Answer, Outcome};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::plan::StrategyChoice;
use crate::report::RunRequest;
use extension::ports::{TrialPurchase, TrialSales};
use shop_domain::{ItemId, OrderId, Quantity, RequestKey, UserId};

/// One load: what is bought, by how many buyers, at which concurrency.
#[derive(Clone)]
pub struct LoadGenerator {
    /// The purchases of the service.
    pub sales: Arc<dyn TrialSales>,
    /// The item that is bought.
    pub item: ItemId,
    /// The strategy with its options.
    pub choice: StrategyChoice,
    /// How many purchases, by how many buyers; request `n` is made by buyer `n` modulo their number.
    pub request: RunRequest,
}

/// Counts of the answers so far by their outcome, which can be read while the load runs.
#[derive(Debug, Default)]
pub struct AnswerCounts([AtomicU64; 4]);

impl AnswerCounts {
    /// The counts of accepted, refused, unavailable and unknown, in this order.
    pub fn read(&self) -> [u64; 4] {
        self.0.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// The buyer of a request: they take turns.
pub fn buyer(request: u32, buyers: u32) -> i64 {
    i64::from(request % buyers) + 1
}

/// The idempotency key of a request: unique among the purchases of a cell, which has its own item.
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
        for _ in 0..self.request.concurrency.min(self.request.requests) {
            let load = self.clone();
            let next = Arc::clone(&next);
            let counts = Arc::clone(&counts);
            workers.spawn(async move { load.work(&next, &counts, began).await });
        }
        workers.join_all().await.into_iter().flatten().collect()
    }

    async fn work(&self, next: &AtomicU32, counts: &AnswerCounts, began: Instant) -> Vec<Answer> {
        let mut answers = Vec::new();
        let time_max = Duration::from_secs(self.request.seconds_max.into());
        while began.elapsed() < time_max {
            let request = next.fetch_add(1, Ordering::Relaxed);
            if request >= self.request.requests {
                break;
            }
            let started = Instant::now();
            let outcome = self.sales.buy(self.purchase(request)).await;
            let ended = Instant::now();
            let micros = between(started, ended);
            let answered_at_us = between(began, ended);
            let buyers = self.request.buyers;
            let answer = answer(request, buyers, reply(&outcome), micros, answered_at_us);
            counts.add(answer.outcome);
            answers.push(answer);
        }
        answers
    }

    fn purchase(&self, request: u32) -> TrialPurchase {
        TrialPurchase {
            buyer: UserId::new(buyer(request, self.request.buyers)).expect("counted from one"),
            item: self.item,
            quantity: Quantity::new(self.request.quantity.into()).unwrap_or(Quantity::ONE),
            strategy: self.choice.card.name,
            options: self.choice.options,
            key: key(request),
        }
    }
}

/// The microseconds between two moments.
fn between(earlier: Instant, later: Instant) -> u64 {
    u64::try_from((later - earlier).as_micros()).unwrap_or(u64::MAX)
}

/// What a client over HTTP would have been told.
#[derive(Clone, Copy)]
pub struct Reply {
    pub status: u16,
    pub code: &'static str,
    pub outcome: Outcome,
    pub order: Option<OrderId>,
}

fn reply(outcome: &shop_domain::Outcome) -> Reply {
    use shop_domain::Outcome::{Queued, Refused, Replayed, Sold, Unavailable, Unknown};
    let (status, code, outcome, order) = match outcome {
        Sold(order) | Replayed(order) => (201, "sold", Outcome::Accepted, Some(order.id)),
        Queued(order) => (202, "queued", Outcome::Accepted, Some(order.id)),
        Refused(refusal) => (409, refusal.code(), Outcome::Refused, None),
        Unavailable(_) => (503, "unavailable", Outcome::Unavailable, None),
        Unknown(_) => (504, "outcome_unknown", Outcome::Unknown, None),
    };
    Reply { status, code, outcome, order }
}

/// The record of one answer. The times are the microseconds from the purchase and from the start of
/// the load until the answer.
pub fn answer(request: u32, buyers: u32, reply: Reply, micros: u64, answered_at_us: u64) -> Answer {
    Answer {
        request,
        last: true,
        buyer: buyer(request, buyers),
        key: Some(key(request).as_str().to_owned()),
        status: reply.status,
        code: reply.code.to_owned(),
        outcome: reply.outcome,
        order_id: reply.order.map(|order| order.to_string()),
        answered_at_us,
        from_plan_us: micros,
        from_send_us: micros,
        ..Answer::default()
    }
}
