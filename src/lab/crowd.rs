//! A crowd of buyers inside this process: so many purchases, so many at once, each measured.
//!
//! Purchases take the way of every other one, admission and all; only HTTP is left out. Each has a
//! key of its own, so that an order can be told by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::plan::Chosen;
use crate::domain::{ItemId, OrderId, Outcome, Quantity, RequestKey, UserId};
use crate::purchase::{PurchaseRequest, Purchases};

/// What a crowd does.
#[derive(Clone)]
pub struct Crowd {
    /// Where it buys.
    pub purchases: Purchases,
    /// What.
    pub item: ItemId,
    /// How.
    pub chosen: Chosen,
    /// Units of each purchase.
    pub quantity: Quantity,
    /// Buyers who take turns.
    pub buyers: u32,
    /// Purchases in all.
    pub requests: u32,
    /// Purchases at once.
    pub concurrency: u32,
    /// When no further purchase is sent.
    pub time_max: Duration,
}

/// What one purchase was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which request.
    pub request: u32,
    /// What was said.
    pub said: Said,
    /// How long it took, in microseconds.
    pub micros: u64,
}

/// What a purchase was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// An order was made or queued.
    Accepted {
        /// It.
        order: OrderId,
        /// Not durable yet.
        queued: bool,
    },
    /// Nothing changed, for good.
    Refused(&'static str),
    /// Nothing changed, try again.
    Unavailable,
    /// It may have happened.
    Unknown,
}

/// What was answered so far, to be read while the crowd is at it.
#[derive(Debug, Default)]
pub struct Tally {
    /// Purchases that were accepted.
    pub accepted: AtomicU64,
    /// Purchases that were refused.
    pub refused: AtomicU64,
    /// Purchases that were told to try again.
    pub unavailable: AtomicU64,
    /// Purchases whose outcome is not known.
    pub unknown: AtomicU64,
}

impl Tally {
    /// All four.
    #[must_use]
    pub fn read(&self) -> [u64; 4] {
        [&self.accepted, &self.refused, &self.unavailable, &self.unknown]
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn add(&self, said: Said) {
        let count = match said {
            Said::Accepted { .. } => &self.accepted,
            Said::Refused(_) => &self.refused,
            Said::Unavailable => &self.unavailable,
            Said::Unknown => &self.unknown,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The key of a request; its lane has an item of its own.
#[must_use]
pub fn key(request: u32) -> RequestKey {
    RequestKey::parse(&format!("lab-{request}")).expect("a handful of plain characters")
}

impl Crowd {
    /// Sends everything and waits for the last answer. Dropping the future stops sending; what
    /// was sent finishes by itself.
    pub async fn rush(self, tally: Arc<Tally>) -> Vec<Answer> {
        let until = Instant::now() + self.time_max;
        let next = Arc::new(AtomicU32::new(0));
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency.min(self.requests) {
            let (crowd, next, tally) = (self.clone(), Arc::clone(&next), Arc::clone(&tally));
            workers.spawn(async move { crowd.work(&next, &tally, until).await });
        }
        workers.join_all().await.into_iter().flatten().collect()
    }

    async fn work(&self, next: &AtomicU32, tally: &Tally, until: Instant) -> Vec<Answer> {
        let mut answers = Vec::new();
        while Instant::now() < until {
            let request = next.fetch_add(1, Ordering::Relaxed);
            if request >= self.requests {
                break;
            }
            let started = Instant::now();
            let said = said(&self.purchases.buy(self.request(request)).await);
            let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            tally.add(said);
            answers.push(Answer { request, said, micros });
        }
        answers
    }

    fn request(&self, request: u32) -> PurchaseRequest {
        let buyer = i64::from(request % self.buyers) + 1;
        PurchaseRequest {
            buyer: UserId::new(buyer).expect("counted from one"),
            item: self.item,
            quantity: self.quantity,
            strategy: self.chosen.card.name.to_owned(),
            options: self.chosen.options,
            key: Some(key(request)),
            ticket: None,
        }
    }
}

fn said(outcome: &Outcome) -> Said {
    match outcome {
        Outcome::Sold(order) | Outcome::Replayed(order) => {
            Said::Accepted { order: order.id, queued: false }
        }
        Outcome::Queued(order) => Said::Accepted { order: order.id, queued: true },
        Outcome::Refused(refusal) => Said::Refused(refusal.code()),
        Outcome::Unavailable(_) => Said::Unavailable,
        Outcome::Unknown(_) => Said::Unknown,
    }
}
