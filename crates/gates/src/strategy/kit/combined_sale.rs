//! Combining: the work of many requests under one hold of an item's lock.
//!
//! All requests of this process that wait for an item's lock do the same under it: read the stock,
//! check, write. So one of them takes the lock and does it for all ([`leaselock::combine`]): one
//! read of the stock, a check for each in the order in which they came, one transaction with the
//! lock's fence. Another process gets the lock between two such batches.
//!
//! Only with the arbiter on. With it off the textbook's form stays what it is: one request, one
//! hold.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::combined_requests::{self as requests, Wanted};
use super::{ledger_view, sale_locks};
use crate::arbiter::{Answer, BATCH_MAX, BatchWriter, Conflict, Fence};
use crate::domain::{Doubt, ItemId, Outcome, Purchase, Refusal, Unavailable};
use crate::store::cache::Cache;
use crate::strategy::StrategyContext;
use leaselock::LockName;
use leaselock::combine::{CombineOptions, Combiner, Executor, HeldFor, Operation, SubmitError};

/// Requests that may wait for one item's lock; one more is answered "overloaded".
const QUEUED_MAX: usize = 16_384;
/// Items whose lock is combined at once.
const ITEMS_MAX: usize = 10_000;

/// The combined work on each item. Clones share it.
#[derive(Clone)]
pub struct CombinedSale {
    shared: Arc<Shared>,
    combiners: Cache<ItemId, Combiner<Wanted, ()>>,
    tasks: TaskTracker,
}

struct Shared {
    context: StrategyContext,
    mutex: Arc<dyn leaselock::Mutex>,
    /// The counter that the fences of an item's lock come from, as the ledger names it.
    fences: &'static str,
}

impl CombinedSale {
    /// Under `mutex`, whose fences come from the counter that the ledger calls `fences`.
    #[must_use]
    pub fn new(
        context: &StrategyContext,
        mutex: &Arc<dyn leaselock::Mutex>,
        fences: &'static str,
    ) -> Self {
        let shared = Shared { context: context.clone(), mutex: Arc::clone(mutex), fences };
        let combiners = Cache::new(ITEMS_MAX);
        // Its tasks end with the items that they are for; a stop waits for the purchases instead.
        Self { shared: Arc::new(shared), combiners, tasks: TaskTracker::new() }
    }

    /// Has the purchase done under the item's lock, which is called `name`. Once its batch has
    /// begun the answer is waited for, however long it takes: a request that may become an order
    /// runs.
    ///
    /// # Errors
    /// When there was no lock before the deadline, or the batch broke off.
    pub async fn write(
        &self,
        purchase: Purchase,
        name: LockName,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let combiner =
            self.combiners.get_or_insert_with(purchase.item.id, || self.start(name.clone()));
        let waiting = sale_locks::lock_wait(&purchase, &name);
        let (wanted, answered) = Wanted::new(purchase, waiting);
        match combiner.submit(wanted, deadline).await {
            Ok(()) | Err(SubmitError::Unknown) => answered.await.map_err(|_| SubmitError::Unknown),
            Err(error) => Err(error),
        }
    }

    fn start(&self, name: LockName) -> Combiner<Wanted, ()> {
        let options = CombineOptions {
            lease: self.shared.context.lease,
            batch_max: BATCH_MAX,
            queued_max: QUEUED_MAX,
        };
        let shared = Arc::clone(&self.shared);
        let mutex = Arc::clone(&shared.mutex);
        let batches = Arc::new(Mutex::new(shared.context.group_commit.writer()));
        let lock_name = name.clone();
        let execute: Executor<Wanted, ()> = Arc::new(move |held, operations| {
            let (shared, name) = (Arc::clone(&shared), lock_name.clone());
            let batches = Arc::clone(&batches);
            Box::pin(async move {
                let mut batches = batches.lock().await;
                shared.work(&mut batches, &name, &held, operations).await;
            })
        });
        Combiner::start(mutex, name, options, execute, &self.tasks)
    }
}

impl Shared {
    /// Read, check, write, for all of one item under one hold.
    async fn work(
        &self,
        batches: &mut BatchWriter,
        name: &LockName,
        held: &HeldFor,
        operations: Vec<Operation<Wanted, ()>>,
    ) {
        let (purchases, waiting) = requests::begin(operations);
        let mut left = match left_for(batches, &purchases).await {
            Ok(left) => left,
            Err(outcome) => return requests::answer(waiting, std::iter::repeat(outcome)),
        };
        let check = |purchase: &Purchase| {
            let fits = purchase.quantity.signed() <= left;
            left -= if fits { purchase.quantity.signed() } else { 0 };
            fits
        };
        let fits: Vec<bool> = purchases.iter().map(check).collect();
        let mut kept = fits.iter();
        let (fitting, others): (Vec<Purchase>, Vec<Purchase>) =
            purchases.into_iter().partition(|_| kept.next() == Some(&true));
        let written = self.write(batches, name, held, &fitting).await;
        // A purchase that fits may have taken nothing (a replay, a buyer at the limit), and a
        // cancellation may have brought units back: then "sold out" would be a lie to the others.
        let left = if fitting.is_empty() { Ok(left) } else { left_for(batches, &others).await };
        let turned_away = match left {
            Ok(left) if others.iter().any(|one| one.quantity.signed() <= left) => {
                self.write(batches, name, held, &others).await
            }
            Ok(_) => vec![Outcome::Refused(Refusal::SoldOut); others.len()],
            Err(outcome) => vec![outcome; others.len()],
        };
        let (mut written, mut turned_away) = (written.into_iter(), turned_away.into_iter());
        let outcomes = fits.into_iter().map(|fits| {
            let outcome = if fits { written.next() } else { turned_away.next() };
            outcome.unwrap_or(Outcome::Unknown(Doubt::BrokenOff))
        });
        requests::answer(waiting, outcomes);
    }

    async fn write(
        &self,
        batches: &mut BatchWriter,
        name: &LockName,
        held: &HeldFor,
        purchases: &[Purchase],
    ) -> Vec<Outcome> {
        if held.is_lost() {
            return vec![Outcome::Unavailable(Unavailable::Contended); purchases.len()];
        }
        let fence = held.fence.map(|fence| Fence::new(self.fences, fence.get()));
        let answers = batches.write(purchases, fence, None).await;
        assert_eq!(answers.len(), purchases.len(), "each order of a batch has one answer");
        let is_fenced = |answer: &&Answer| matches!(answer, Err(Conflict::Fenced { .. }));
        if let Some(Err(Conflict::Fenced { accepted })) = answers.iter().find(is_fenced) {
            sale_locks::catch_up(&*self.mutex, name, *accepted).await;
        }
        let count = |(answer, purchase): (Answer, &Purchase)| {
            self.context.arbiter.count(purchase.strategy, &answer);
            answer.unwrap_or_else(Outcome::from)
        };
        answers.into_iter().zip(purchases).map(count).collect()
    }
}

/// Units left for purchases of one item, read now.
async fn left_for(batches: &mut BatchWriter, purchases: &[Purchase]) -> Result<i64, Outcome> {
    let Some(first) = purchases.first() else { return Ok(0) };
    purchases.iter().for_each(|purchase| purchase.look.is_now());
    batches.available(first.item.routed()).await.map_err(|error| ledger_view::unavailable(&error))
}

impl fmt::Debug for CombinedSale {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CombinedSale")
    }
}
