//! A batch: the orders of many buyers of one item in one transaction.
//!
//! A batch is written *optimistically* first: the unique key, the CHECK on the buyer's limit and
//! `available >= ?` hold for it as for a single order, so it breaks no rule. When one of them
//! objects, the batch is rolled back, and this batch and the next one are *pre-checked*: duplicates
//! of a key, buyers over their limit and orders for which nothing is left are answered singly, and
//! the rest is written together. An order that would fit without the rest is checked again once the
//! rest is written or refused. After a batch without such orders, batches are optimistic again.
//!
//! A batch is only ever an optimisation: whatever stays undecided is written one by one.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{MySql, MySqlConnection, MySqlPool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::pipeline::{BatchPipeline, PipelineSlot};
use super::sql::{Broken, Filled, choose, commit};
use crate::arbiter::{
    ATTEMPTS_MAX, Answer, Arbiter, BATCH_MAX, Conflict, Fence, OrderWrite, StockWrite, UNANSWERED,
    WRITTEN_AS, pause, replay,
};
use crate::domain::{ItemId, Outcome, Purchase};
use crate::store::mysql::link::TRANSACTION_MAX;
use crate::store::mysql::{Fault, stock, within};

/// The connections that writers keep while they are busy. Clones share them.
#[derive(Clone, Debug)]
pub struct BatchConnections {
    pool: MySqlPool,
    free: Arc<Semaphore>,
}

impl BatchConnections {
    /// Makes a pool of at most `count` kept connections of `pool`, which has as many and no other
    /// user.
    #[must_use]
    pub fn new(pool: MySqlPool, count: u32) -> Self {
        Self { pool, free: Arc::new(Semaphore::new(count as usize)) }
    }

    /// One to keep, or one of the common pool when all are taken.
    async fn get(&self, common: &MySqlPool) -> sqlx::Result<Own> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        let pool = if permit.is_some() { &self.pool } else { common };
        Ok(Own { connection: pool.acquire().await?, permit })
    }
}

/// A connection and the right to keep it. The connection is dropped first.
struct Own {
    connection: PoolConnection<MySql>,
    permit: Option<OwnedSemaphorePermit>,
}

/// Writes batches of one item, one after the other: one of the writers of an item's queue, or the
/// holder of an item's lock.
pub struct BatchWriter {
    arbiter: Arbiter,
    connections: BatchConnections,
    /// Shared by the writers of one queue.
    pipeline: BatchPipeline,
    /// Kept from batch to batch, so that its statements are prepared once.
    own: Option<Own>,
    /// Whether batches are checked before they are written.
    pre_checked: bool,
}

impl BatchWriter {
    /// A writer for one item at a time. Its refusals are not counted, see [`Arbiter::count`].
    pub(super) fn new(
        arbiter: Arbiter,
        connections: BatchConnections,
        pipeline: BatchPipeline,
    ) -> Self {
        Self { arbiter, connections, pipeline, own: None, pre_checked: false }
    }

    /// Units left of an item a moment ago, read on the connection that will write.
    ///
    /// # Errors
    /// The database's.
    pub async fn available(&mut self, item: ItemId) -> sqlx::Result<i64> {
        let mut own = self.connection().await?;
        let row = stock::read(&mut *own.connection, item).await?;
        self.own = own.permit.is_some().then_some(own);
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
        let slot = self.enter().await;
        self.write_at(slot, purchases, fence, deadline).await
    }

    /// Waits until rows may be written.
    pub(super) async fn enter(&self) -> PipelineSlot {
        self.pipeline.enter().await
    }

    /// Like [`BatchWriter::write`], for a caller that has entered the pipeline already.
    pub(super) async fn write_at(
        &mut self,
        mut slot: PipelineSlot,
        purchases: &[Purchase],
        fence: Option<Fence>,
        deadline: Option<Instant>,
    ) -> Vec<Answer> {
        assert!(purchases.len() <= BATCH_MAX, "a batch is cut before it is written");
        let is_one_item = purchases.iter().all(|one| one.item.id == purchases[0].item.id);
        assert!(is_one_item, "a batch is of one item");
        let mut answers: Vec<Option<Answer>> = vec![None; purchases.len()];
        // A single order keeps the pipeline to itself until it is written.
        let _exclusive = if purchases.len() > 1 {
            self.write_together(slot, purchases, fence, &mut answers).await;
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

    /// Writes what can be written together; what stays `None` is to be written singly.
    async fn write_together(
        &mut self,
        slot: PipelineSlot,
        purchases: &[Purchase],
        fence: Option<Fence>,
        answers: &mut [Option<Answer>],
    ) {
        let Ok(mut own) = self.connection().await else { return };
        let kept = self.write_on(slot, &mut own.connection, purchases, fence, answers).await;
        // Without a permit it goes back to the common pool, and after an error it is closed.
        self.own = (kept && own.permit.is_some()).then_some(own);
        if kept {
            return;
        }
        // A COMMIT that was not answered: each order is looked for by itself, once the connection
        // that may hold its row is gone.
        let mut can_be_asked = true;
        for (purchase, answer) in purchases.iter().zip(answers) {
            // After one look-up without an answer, the others do not wait as long one by one.
            if can_be_asked && matches!(answer, Some(Ok(Outcome::Unknown(_)))) {
                *answer = match self.arbiter.recover_lost_commit(purchase).await {
                    Some(Some(order)) => Some(Ok(replay(purchase, order))),
                    Some(None) => None,
                    None => {
                        can_be_asked = false;
                        Some(Ok(UNANSWERED))
                    }
                };
            }
        }
    }

    async fn connection(&mut self) -> sqlx::Result<Own> {
        match self.own.take() {
            Some(own) => Ok(own),
            None => self.connections.get(&self.arbiter.pool).await,
        }
    }

    /// `false` when the connection is not to be used again. Orders that may have been written are
    /// `Unknown` then.
    async fn write_on(
        &mut self,
        mut slot: PipelineSlot,
        connection: &mut MySqlConnection,
        purchases: &[Purchase],
        fence: Option<Fence>,
        answers: &mut [Option<Answer>],
    ) -> bool {
        let first_of_their_key = first_of_their_key(purchases);
        let mut failed = 0;
        loop {
            let chosen = if self.pre_checked {
                slot.exclusive().await;
                let chosen = choose(connection, purchases, &first_of_their_key, answers);
                match within(TRANSACTION_MAX, chosen).await {
                    Ok(chosen) => chosen,
                    Err(error) => {
                        tracing::debug!(%error, "batch not pre-checked; its orders are written singly");
                        return Fault::of(&error) != Fault::Connection;
                    }
                }
            } else {
                first_of_their_key.clone()
            };
            self.pre_checked = chosen.len() < first_of_their_key.len();
            if chosen.is_empty() {
                return true;
            }
            let picked: Vec<&Purchase> = chosen.iter().map(|&index| &purchases[index]).collect();
            match commit(connection, &picked, (fence, self.arbiter.outbox), &mut slot).await {
                Ok(Filled::Whole) => {
                    let token = fence.map(|fence| fence.token);
                    for &index in &chosen {
                        let order = purchases[index].order(WRITTEN_AS, token);
                        answers[index] = Some(Ok(Outcome::Sold(order)));
                    }
                    if first_of_their_key.iter().all(|&index| answers[index].is_some()) {
                        return true;
                    }
                    // Those that were passed over are checked again. Each round decides at least
                    // one order, so there are no more rounds than orders, and mostly two.
                    continue;
                }
                Ok(Filled::Fenced { accepted }) => {
                    for answer in answers.iter_mut().filter(|answer| answer.is_none()) {
                        *answer = Some(Err(Conflict::Fenced { accepted }));
                    }
                    return true;
                }
                // Too few are left for all, or for all that there were a moment ago.
                Ok(Filled::TooFew) => self.pre_checked = true,
                Err(Broken::Before(error)) => {
                    tracing::debug!(%error, "batch rolled back");
                    match Fault::of(&error) {
                        Fault::Duplicate | Fault::CheckViolated => self.pre_checked = true,
                        Fault::Transient => {}
                        Fault::Connection => return false,
                        Fault::ReadOnly | Fault::Other => return true,
                    }
                }
                Err(Broken::AtCommit(error)) => {
                    tracing::warn!(%error, orders = picked.len(), "COMMIT of a batch not answered");
                    self.arbiter.metrics.arbiter_commits_lost.inc();
                    for &index in &chosen {
                        answers[index] = Some(Ok(UNANSWERED));
                    }
                    return false;
                }
            }
            failed += 1;
            if failed == ATTEMPTS_MAX {
                return true;
            }
            self.arbiter.metrics.arbiter_retries.inc();
            // What it wrote is rolled back, so the one behind it may pass meanwhile.
            drop(slot);
            pause(failed).await;
            slot = self.pipeline.enter().await;
        }
    }
}

/// The second of two with one key waits for the first, and then finds it.
fn first_of_their_key(purchases: &[Purchase]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(purchases.len());
    let is_first = |index: &usize| {
        let purchase = &purchases[*index];
        seen.insert((purchase.buyer, purchase.key.as_str()))
    };
    (0..purchases.len()).filter(is_first).collect()
}
