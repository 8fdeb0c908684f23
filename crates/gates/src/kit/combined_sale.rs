//! Combining: the work of many requests under one hold of an item's lock.
//!
//! All requests of this process that wait for an item's lock do the same under it: read the stock,
//! check, write. So one of them takes the lock and does it for all ([`leaselock::combine`]): one
//! read of the stock, a check for each in the order in which they came, one transaction with the
//! lock's fence. Another process gets the lock between two such batches.
//!
//! Only with the arbiter on. With it off the textbook's form stays what it is: one request, one
//! hold.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::sale_locks;
use crate::StrategyContext;
use leaselock::combine::{BatchHold, CombineOptions, Combiner, Executor, Operation, SubmitError};
use leaselock::{LeasedMutex, LockName};
use ledger::cache::Cache;
use ledger::write::{
    Answer, AnswerSender, Answers, BATCH_MAX, BatchOrders, BatchWriter, Conflict, Fence,
    ReadyAnswer, answer_channel, no_ledger,
};
use shop_domain::{ItemId, Outcome, Purchase, Refusal, Span, Unavailable};

/// Requests that may wait for one item's lock; one more is answered "overloaded".
const QUEUED_MAX: usize = 16_384;
/// Items whose lock is combined at once.
const ITEMS_MAX: usize = 10_000;

/// The combined work on each item. Clones share it.
#[derive(Clone)]
pub struct CombinedSale {
    shared: Arc<Shared>,
    combiners: Cache<ItemId, Combiner<SaleRequest, ()>>,
    tasks: TaskTracker,
}

struct Shared {
    context: StrategyContext,
    mutex: LeasedMutex,
    /// The counter that the fences of an item's lock come from, as the ledger names it.
    fences: &'static str,
    answers: Answers<StartedRequest>,
}

/// The outcome of a request that has begun.
type EndedRequest = (StartedRequest, Outcome);

/// One request's part of a batch.
struct SaleRequest {
    purchase: Purchase,
    /// No try of the order begins after it.
    deadline: Instant,
    /// Gets the answer when the order is decided, also after the deadline of the request.
    answer: AnswerSender<Outcome>,
    /// The runtime on which the request waits.
    runtime: Handle,
    /// Ends when the batch begins.
    _waiting: Span,
}

/// A request of a batch that has begun.
struct StartedRequest {
    /// No try of the order begins after it.
    deadline: Instant,
    item: ItemId,
    runtime: Handle,
    answer: AnswerSender<Outcome>,
    /// Wakes the request when it is dropped, if the request still waits for its batch.
    _operation: Operation<SaleRequest, ()>,
}

impl CombinedSale {
    /// Under `mutex`, whose fences come from the counter that the ledger calls `fences`.
    pub fn new(context: &StrategyContext, mutex: LeasedMutex, fences: &'static str) -> Self {
        let answers = Answers::default();
        let shared = Shared { context: context.clone(), mutex, fences, answers };
        let combiners = Cache::new(ITEMS_MAX);
        // Its tasks end with the items that they are for; a stop waits for the purchases instead.
        Self { shared: Arc::new(shared), combiners, tasks: TaskTracker::new() }
    }

    /// Sells the purchase in a batch under the item's lock, which is called `name`. No try of it begins after the
    /// deadline. Once its batch has begun, this waits for the answer even beyond the deadline: the request may still
    /// become an order.
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
        let (answer, answered) = answer_channel();
        let runtime = Handle::current();
        let _waiting = sale_locks::lock_wait(&purchase, &name);
        let request = SaleRequest { purchase, deadline, answer, runtime, _waiting };
        match combiner.submit(request, deadline).await {
            Ok(()) | Err(SubmitError::Unknown) => answered.await.ok_or(SubmitError::Unknown),
            Err(error) => Err(error),
        }
    }

    fn start(&self, name: LockName) -> Combiner<SaleRequest, ()> {
        let options = CombineOptions {
            lease: self.shared.context.lease,
            batch_max: BATCH_MAX,
            queued_max: QUEUED_MAX,
        };
        let shared = Arc::clone(&self.shared);
        let mutex = shared.mutex.clone();
        let batches = Arc::new(shared.context.group_commit.writer());
        let lock_name = name.clone();
        let execute: Executor<SaleRequest, ()> = Arc::new(move |held, operations| {
            let shared = Arc::clone(&shared);
            let name = lock_name.clone();
            let batches = Arc::clone(&batches);
            Box::pin(async move {
                shared.work(&batches, &name, &held, operations).await;
            })
        });
        Combiner::start(mutex, name, options, execute, &self.tasks)
    }
}

impl Shared {
    /// Reads the stock, checks it and writes the orders: for all waiting requests of one item, under one hold of its
    /// lock.
    async fn work(
        &self,
        batches: &BatchWriter,
        name: &LockName,
        held: &BatchHold,
        operations: Vec<Operation<SaleRequest, ()>>,
    ) {
        let (purchases, waiting): (Vec<Purchase>, Vec<StartedRequest>) = begin(operations).unzip();
        let mut asked_at = std::time::Instant::now();
        let mut left = match left_for(batches, &purchases).await {
            Ok(left) => left,
            Err(outcome) => return self.answer_all(waiting, &outcome),
        };
        let fits = |(purchase, _): &(Purchase, StartedRequest)| {
            let fits = purchase.quantity.signed() <= left;
            left -= if fits { purchase.quantity.signed() } else { 0 };
            fits
        };
        type Requests = Vec<(Purchase, StartedRequest)>;
        let (fitting, others): (Requests, Requests) =
            purchases.into_iter().zip(waiting).partition(fits);
        let has_written = !fitting.is_empty();
        self.write(batches, name, held, fitting.into_iter().unzip()).await;
        let (purchases, waiting): (Vec<Purchase>, Vec<StartedRequest>) = others.into_iter().unzip();
        // A purchase that fits may have taken nothing (a replay, a buyer at the limit), and a
        // cancellation may have brought units back: then "sold out" would be a lie to the others.
        let mut left = Ok(left);
        if has_written {
            asked_at = std::time::Instant::now();
            left = left_for(batches, &purchases).await;
        }
        match left {
            Ok(left) if purchases.iter().any(|one| one.quantity.signed() <= left) => {
                self.write(batches, name, held, (purchases, waiting)).await;
            }
            Ok(_) => {
                let sold_out = Refusal::SoldOut { asked_at: Some(asked_at) };
                self.answer_all(waiting, &Outcome::Refused(sold_out));
            }
            Err(outcome) => self.answer_all(waiting, &outcome),
        }
    }

    /// Writes purchases in one transaction, and answers each as soon as it is decided.
    async fn write(
        &self,
        batches: &BatchWriter,
        name: &LockName,
        held: &BatchHold,
        (purchases, waiting): (Vec<Purchase>, Vec<StartedRequest>),
    ) {
        if purchases.is_empty() {
            return;
        }
        if held.is_lost() {
            let contended = Outcome::Unavailable(Unavailable::Contended);
            return self.answer_all(waiting, &contended);
        }
        let deadlines: Vec<_> = waiting.iter().map(|one| Some(one.deadline)).collect();
        let mut waiting: Vec<Option<StartedRequest>> = waiting.into_iter().map(Some).collect();
        let mut later_fence = None;
        let mut fenced = Vec::new();
        let mut tell = |answers: Vec<(usize, Answer)>| {
            let mut decided = Vec::with_capacity(answers.len());
            for (index, answer) in answers {
                let Some(begun) = waiting[index].take() else { continue };
                match answer {
                    Ok(outcome) => decided.push((begun, outcome)),
                    Err(conflict) => {
                        if let Conflict::Fenced { accepted } = conflict {
                            later_fence = Some(accepted);
                        }
                        begun.answer.give(conflict.into());
                        fenced.push(begun);
                    }
                }
            }
            self.answer(decided);
        };
        let orders = BatchOrders { purchases: &purchases, deadlines: &deadlines };
        let fence = held.fence.map(|fence| Fence::new(self.fences, fence.get()));
        batches.write(orders, fence, &mut tell).await;
        // They are woken later: they may try again at once, and should get a higher fence then.
        if let Some(accepted) = later_fence {
            sale_locks::catch_up(&self.mutex, name, accepted).await;
        }
        self.wake(fenced);
    }

    /// Gives each request its outcome, and wakes the requests.
    fn answer(&self, decided: impl IntoIterator<Item = EndedRequest>) {
        self.wake(decided.into_iter().map(|(begun, outcome)| {
            begun.answer.give(outcome);
            begun
        }));
    }

    /// Wakes requests that have their outcomes.
    fn wake(&self, ended: impl IntoIterator<Item = StartedRequest>) {
        self.answers.wake(ended.into_iter().map(|begun| {
            let runtime = begun.runtime.clone();
            ReadyAnswer { runtime, item: begun.item, sender: begun }
        }));
    }

    /// Gives the outcome to all requests.
    fn answer_all(&self, begun: Vec<StartedRequest>, outcome: &Outcome) {
        self.answer(begun.into_iter().map(|one| (one, outcome.clone())));
    }
}

/// Takes the purchases of a batch.
fn begin(
    operations: Vec<Operation<SaleRequest, ()>>,
) -> impl Iterator<Item = (Purchase, StartedRequest)> {
    operations.into_iter().filter_map(|mut operation| {
        let SaleRequest { purchase, deadline, answer, runtime, .. } = operation.take_input()?;
        let item = purchase.item.id;
        Some((purchase, StartedRequest { deadline, item, runtime, answer, _operation: operation }))
    })
}

/// Units left for purchases of one item, read now.
async fn left_for(batches: &BatchWriter, purchases: &[Purchase]) -> Result<i64, Outcome> {
    let Some(first) = purchases.first() else { return Ok(0) };
    batches.available(first.item.id).await.map_err(|error| no_ledger(&error))
}
