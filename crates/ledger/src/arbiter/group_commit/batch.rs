//! A batch: the orders of many buyers in one transaction.
//!
//! A batch is written *optimistically* first: the unique key, the CHECK on the buyer's limit and
//! `available >= ?` hold for it as for a single order, so it breaks no rule. When one of them
//! objects, the batch is rolled back, and this batch and the next ones are *pre-checked*: duplicates
//! of a key, buyers over their limit and orders for which nothing is left are answered singly, and
//! the rest is written together. An order that would fit without the rest is checked again once the
//! rest is written or refused. After a batch without such orders, batches are optimistic again.
//!
//! A batch is only ever an optimisation: whatever stays undecided is written one by one. A batch of
//! many items leaves it to batches of one item each, after two tries.

use std::collections::HashSet;

use sqlx::MySqlConnection;
use tokio::time::Instant;

use super::connections::{BatchConnections, Own};
use super::look::{Written, choose, find_written, items_of, locked_by_others};
use super::pipeline::{BatchPipeline, PipelineSlot};
use super::sql::{Broken, Filled, commit};
use crate::arbiter::{
    ATTEMPTS_MAX, Answer, Arbiter, BATCH_MAX, Conflict, Fence, LOST_COMMIT_READS_MAX, OrderWrite,
    StockWrite, UNANSWERED, WRITTEN_AS, pause,
};
use crate::domain::outcome::Dependency;
use crate::domain::trace::SharedSpan;
use crate::domain::{Outcome, Purchase, Routed, Unavailable};
use crate::store::mysql::link::TRANSACTION_MAX;
use crate::store::mysql::{Fault, stock, within};

/// Tries of a batch of many items.
const SHARED_ATTEMPTS_MAX: u32 = 2;

/// Writes batches, one after the other: for a queue, or for the holder of an item's lock.
pub struct BatchWriter {
    arbiter: Arbiter,
    connections: BatchConnections,
    /// Shared by the writers of one queue.
    pipeline: BatchPipeline,
    /// Kept from batch to batch, so that its statements are prepared once.
    own: Option<Own>,
}

/// One batch under way.
struct Batch<'a> {
    purchases: &'a [Purchase],
    fence: Option<Fence>,
    answers: &'a mut [Option<Answer>],
    /// Whether its orders are of many items, so that what objects is left to the items' own batches.
    is_shared: bool,
    span: SharedSpan,
}

impl<'a> Batch<'a> {
    fn new(
        purchases: &'a [Purchase],
        fence: Option<Fence>,
        answers: &'a mut [Option<Answer>],
        is_shared: bool,
    ) -> Self {
        let traces = purchases.iter().map(|purchase| &purchase.trace);
        let mut span = SharedSpan::begin("batch", traces);
        span.set("orders", purchases.len());
        Self { purchases, fence, answers, is_shared, span }
    }
}

impl BatchWriter {
    /// A writer for one batch at a time. Its refusals are not counted, see [`Arbiter::count`].
    pub(super) fn new(
        arbiter: Arbiter,
        connections: BatchConnections,
        pipeline: BatchPipeline,
    ) -> Self {
        Self { arbiter, connections, pipeline, own: None }
    }

    /// Units left of an item a moment ago, read on the connection that will write.
    ///
    /// # Errors
    /// The database's.
    pub async fn available(&mut self, routed: Routed) -> sqlx::Result<i64> {
        let mut own = self.connection().await?;
        let row = stock::read_routed(&mut *own.connection, routed).await?;
        self.own = own.kept();
        Ok(row.map_or(0, |row| row.available))
    }

    /// Writes the orders of one item, under the fence of the item's lock if there is one. Orders
    /// that are left over are written singly, and not begun after `deadline`. The answers are in
    /// the orders' order; refusals are not counted.
    pub async fn write(
        &mut self,
        purchases: &[Purchase],
        fence: Option<Fence>,
        deadline: Option<Instant>,
    ) -> Vec<Answer> {
        let slot = self.pipeline.enter().await;
        self.write_at(slot, purchases, fence, deadline).await
    }

    /// Like [`BatchWriter::write`], for a caller that has entered the pipeline already.
    pub(super) async fn write_at(
        &mut self,
        mut slot: PipelineSlot,
        purchases: &[Purchase],
        fence: Option<Fence>,
        deadline: Option<Instant>,
    ) -> Vec<Answer> {
        let is_one_item = purchases.iter().all(|one| one.item.id == purchases[0].item.id);
        assert!(
            is_one_item,
            "a batch with a fence, or whose rest is written singly, is of one item"
        );
        let mut answers: Vec<Option<Answer>> = vec![None; purchases.len()];
        // A single order keeps the pipeline to itself until it is written.
        let _exclusive = if purchases.len() > 1 {
            let batch = Batch::new(purchases, fence, &mut answers, false);
            self.write_together(slot, batch).await;
            None
        } else {
            slot.exclusive().await;
            Some(slot)
        };
        let mut decided = Vec::with_capacity(purchases.len());
        for (purchase, answer) in purchases.iter().zip(answers) {
            decided.push(match answer {
                Some(answer) => answer,
                None => {
                    let stock = StockWrite::Guarded;
                    let write = OrderWrite { purchase, fence, stock, deadline };
                    self.arbiter.write_uncounted(&write).await
                }
            });
        }
        decided
    }

    /// Writes the orders of many items. Those without an answer are not written: each belongs into a
    /// batch of its item alone.
    pub(super) async fn write_shared(
        &mut self,
        slot: PipelineSlot,
        purchases: &[Purchase],
    ) -> Vec<Option<Answer>> {
        let mut answers: Vec<Option<Answer>> = vec![None; purchases.len()];
        let batch = Batch::new(purchases, None, &mut answers, true);
        self.write_together(slot, batch).await;
        answers
    }

    /// Writes what can be written together; what stays `None` is to be written in another way.
    async fn write_together(&mut self, slot: PipelineSlot, mut batch: Batch<'_>) {
        assert!(batch.purchases.len() <= BATCH_MAX, "a batch is cut before it is written");
        let mut own = match self.connection().await {
            Ok(own) => own,
            Err(error) => {
                tracing::debug!(%error, "no connection for a batch");
                if batch.is_shared {
                    // The pool has tried for as long as it may.
                    let no_ledger = Unavailable::Dependency(Dependency::Mysql);
                    batch.answer_rest(&Ok(Outcome::Unavailable(no_ledger)));
                }
                return;
            }
        };
        let mut is_usable = self.write_on(slot, &mut own.connection, &mut batch).await;
        if own.destination.has_changed() {
            // A server that was replaced meanwhile has answered: the ledger may not have it.
            let answered = batch.answers.iter_mut().filter(|answer| answer.is_some());
            answered.for_each(|answer| *answer = Some(Ok(UNANSWERED)));
            is_usable = false;
        }
        if is_usable {
            self.own = own.kept();
            return;
        }
        // Its transaction ends with the connection; then the ledger tells what became of a COMMIT.
        drop(own);
        self.recover_lost_commit(&mut batch).await;
    }

    async fn connection(&mut self) -> sqlx::Result<Own> {
        match self.own.take() {
            Some(own) if !own.destination.has_changed() => Ok(own),
            _ => self.connections.get(&self.arbiter.pool).await,
        }
    }

    /// Asks the ledger about the orders of a COMMIT that was not answered, all with one statement. It
    /// waits for a transaction that still holds their rows, so a COMMIT that is only slow is not
    /// mistaken for one that failed. Orders that were not written are undecided again.
    async fn recover_lost_commit(&self, batch: &mut Batch<'_>) {
        let is_unknown =
            |index: &usize| matches!(batch.answers[*index], Some(Ok(Outcome::Unknown(_))));
        let asked: Vec<usize> = (0..batch.purchases.len()).filter(is_unknown).collect();
        let purchases: Vec<&Purchase> =
            asked.iter().map(|&index| &batch.purchases[index]).collect();
        if purchases.is_empty() {
            return;
        }
        for attempt in 1..=LOST_COMMIT_READS_MAX {
            match find_written(&self.arbiter.pool, &purchases).await {
                Ok(Written { mut orders, moved }) => {
                    for index in asked {
                        let purchase = &batch.purchases[index];
                        let order = orders.remove(&purchase.order_id);
                        // The item may have moved with its order: that one stays unknown.
                        if order.is_some() || !moved.contains(&purchase.item.id) {
                            batch.answers[index] = order.map(|order| Ok(Outcome::Sold(order)));
                        }
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, orders = asked.len(), "result of a batch's lost COMMIT not known yet");
                }
            }
            pause(attempt + 2).await;
        }
    }

    /// `false` when the connection is not to be used again. Orders that may have been written are
    /// `Unknown` then.
    async fn write_on(
        &self,
        mut slot: PipelineSlot,
        connection: &mut MySqlConnection,
        batch: &mut Batch<'_>,
    ) -> bool {
        let attempts_max = if batch.is_shared { SHARED_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        let mut candidates = first_of_their_key(batch.purchases);
        let mut is_pre_checked = self.pipeline.is_pre_checked();
        let mut failed = 0;
        loop {
            let chosen = if is_pre_checked {
                slot.exclusive().await;
                let chosen = choose(connection, batch.purchases, &candidates, batch.answers);
                match within(TRANSACTION_MAX, chosen).await {
                    Ok(chosen) => {
                        self.pipeline.set_pre_checked(chosen.len() < candidates.len());
                        chosen
                    }
                    Err(error) => {
                        tracing::debug!(%error, "batch not pre-checked");
                        return Fault::of(&error) != Fault::Connection;
                    }
                }
            } else {
                candidates.clone()
            };
            if chosen.is_empty() {
                return true;
            }
            let picked: Vec<&Purchase> =
                chosen.iter().map(|&index| &batch.purchases[index]).collect();
            let mut objected = false;
            let outbox = self.arbiter.outbox;
            let transaction = batch.span.common().span("transaction");
            let committed =
                commit(connection, &picked, (batch.fence, outbox), (&mut slot, &transaction)).await;
            drop(transaction);
            match committed {
                Ok(Filled::Whole) => {
                    batch.sold(&chosen);
                    // Those that were passed over are checked again, unless the others of many items
                    // would wait. Each round decides at least one order, so there are no more rounds
                    // than orders, and mostly two.
                    let is_over = candidates.iter().all(|&index| batch.answers[index].is_some());
                    if is_over || batch.is_shared {
                        return true;
                    }
                    continue;
                }
                Ok(Filled::Fenced { accepted }) => {
                    batch.answer_rest(&Err(Conflict::Fenced { accepted }));
                    return true;
                }
                // Too few are left for all, or for all that there were a moment ago.
                Ok(Filled::TooFew) => objected = true,
                Err(Broken::Before(error)) => {
                    self.arbiter.suspect(&error);
                    tracing::debug!(%error, "batch rolled back");
                    match Fault::of(&error) {
                        Fault::Duplicate | Fault::CheckViolated => objected = true,
                        Fault::Transient if batch.is_shared => {
                            let items = items_of(picked.iter().copied());
                            let Ok(locked) = locked_by_others(connection, &items).await else {
                                return false;
                            };
                            candidates
                                .retain(|&index| !locked.contains(&batch.purchases[index].item.id));
                        }
                        Fault::Transient => {}
                        Fault::Connection => return false,
                        // A server that refuses writes may have a successor.
                        Fault::ReadOnly => {
                            if batch.is_shared {
                                batch.answer_rest(&Ok(Outcome::Unavailable(Unavailable::ReadOnly)));
                            }
                            return false;
                        }
                        Fault::Moved | Fault::Other => return true,
                    }
                }
                Err(Broken::AtCommit(error)) => {
                    tracing::warn!(%error, orders = picked.len(), "COMMIT of a batch not answered");
                    self.arbiter.metrics.arbiter_commits_lost.inc();
                    for &index in &chosen {
                        batch.answers[index] = Some(Ok(UNANSWERED));
                    }
                    return false;
                }
            }
            if objected {
                is_pre_checked = true;
                self.pipeline.set_pre_checked(true);
            }
            failed += 1;
            if failed == attempts_max || slot.is_overtaken() {
                return true;
            }
            self.arbiter.metrics.arbiter_retries.inc();
            // What it wrote is rolled back, so the one behind it may pass meanwhile.
            slot.leave();
            pause(failed).await;
            slot.enter_again().await;
        }
    }
}

impl Batch<'_> {
    /// Answers orders that are written.
    fn sold(&mut self, written: &[usize]) {
        let token = self.fence.map(|fence| fence.token);
        for &index in written {
            let order = self.purchases[index].order(WRITTEN_AS, token);
            self.answers[index] = Some(Ok(Outcome::Sold(order)));
        }
    }

    /// Answers all orders that are undecided.
    fn answer_rest(&mut self, answer: &Answer) {
        for undecided in self.answers.iter_mut().filter(|answer| answer.is_none()) {
            *undecided = Some(answer.clone());
        }
    }
}

/// The second of two with one key waits for the first, and then finds it.
fn first_of_their_key(purchases: &[Purchase]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(purchases.len());
    let is_first = |index: &usize| {
        let purchase = &purchases[*index];
        seen.insert((purchase.buyer, purchase.item.id, purchase.key.as_str()))
    };
    (0..purchases.len()).filter(is_first).collect()
}
