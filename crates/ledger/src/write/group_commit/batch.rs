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
use std::ops::Range;
use std::time::Duration;

use sqlx::MySqlConnection;
use tokio::time::Instant;

use super::batch_orders::{Batch, BatchOrders, Tell, UNWRITTEN, lines_at, orders_of};
use super::pipeline::{BatchPipeline, PipelineSlot};
use super::pre_check::{choose, items_of};
use super::resources::BatchConnections;
use super::sql::{BatchError, BatchResult, commit};
use super::statements::{find_written, locked_by_others};
use crate::work::item_permit::ItemPermits;
use crate::write::protocol::{self, protocol};
use crate::write::{
    ATTEMPTS_MAX, Arbiter, BATCH_MAX, Fence, LOST_COMMIT_READS_MAX, OrderWrite, StockWrite,
    UNANSWERED, in_time, no_connection, pause, unavailable,
};
use mysql_connection::limits::TRANSACTION_MAX;
use mysql_connection::{Fault, within};
use shop_domain::{ItemId, Outcome, Purchase, Unavailable};

/// How long after its first deadline a batch may begin to take the stock: it was begun in time, and
/// the batch before it ended a moment too late. Less than the margin of a gate's deadline.
const TURN_LATE_MAX: Duration = Duration::from_millis(200);
/// Tries of a batch of many items.
const SHARED_ATTEMPTS_MAX: u32 = 2;
/// Connections on which an order with several lines is tried.
const ALONE_ATTEMPTS_MAX: u32 = 2;

/// Writes batches: for a queue, or for the holder of an item's lock.
pub struct BatchWriter {
    arbiter: Arbiter,
    connections: BatchConnections,
    /// Shared by the writers of one queue.
    pipeline: BatchPipeline,
}

impl BatchWriter {
    /// A writer over `connections`.
    pub(super) fn new(
        arbiter: Arbiter,
        connections: BatchConnections,
        pipeline: BatchPipeline,
    ) -> Self {
        Self { arbiter, connections, pipeline }
    }

    /// Units left of an item a moment ago.
    pub async fn available(&self, item: ItemId) -> sqlx::Result<i64> {
        let row = self.connections.stock(&self.arbiter.kept, item).await?;
        Ok(row.map_or(0, |row| row.available))
    }

    /// Writes the orders of one item, under the fence of the item's lock if there is one. Orders
    /// that are left over are written singly. No try of an order begins after its deadline.
    pub async fn write(&self, orders: BatchOrders<'_>, fence: Option<Fence>, tell: Tell<'_>) {
        let slot = self.pipeline.enter().await;
        self.write_at(slot, orders, fence, tell).await;
    }

    /// Like [`BatchWriter::write`], for a caller that has entered the pipeline already.
    pub(super) async fn write_at(
        &self,
        mut slot: PipelineSlot,
        orders: BatchOrders<'_>,
        fence: Option<Fence>,
        tell: Tell<'_>,
    ) {
        let purchases = orders.purchases;
        let is_one_item = purchases.iter().all(|one| one.item.id == purchases[0].item.id);
        assert!(
            is_one_item,
            "a batch with a fence, or whose rest is written singly, is of one item"
        );
        let mut batch = Batch::new(&self.arbiter, orders, fence, tell);
        // A single order keeps the pipeline to itself until it is written.
        let _exclusive = if purchases.len() > 1 {
            self.write_together(slot, &mut batch).await;
            batch.tell_decided();
            None
        } else {
            // Late: the time of the order is over, which its answer says.
            let _ = in_time(batch.deadline(), slot.exclusive()).await;
            Some(slot)
        };
        // Those that have to be told first are written first: each waits for rows of the item.
        for (index, deadline) in batch.undecided() {
            let purchase = &purchases[index];
            let stock = StockWrite::Guarded;
            let write = OrderWrite { purchase, fence, stock, deadline };
            batch.answers[index] = Some(self.arbiter.decide(&write).await);
            batch.tell_decided();
        }
    }

    /// Writes the orders of many items. An order that it does not answer is not written: it belongs into a batch of its
    /// item alone.
    pub(super) async fn write_shared(
        &self,
        slot: PipelineSlot,
        orders: BatchOrders<'_>,
        tell: Tell<'_>,
    ) {
        let mut batch = Batch::shared(&self.arbiter, orders, tell);
        self.write_together(slot, &mut batch).await;
        batch.tell_decided();
    }

    /// Writes one order with several lines: all or none. `Some` when others have the stock row of this item, or the limit
    /// of the buyer for it: then nothing was written or told, and the caller waits for that item with nothing else in hand.
    pub(super) async fn write_alone(
        &self,
        permits: &ItemPermits,
        orders: BatchOrders<'_>,
        tell: Tell<'_>,
    ) -> Option<ItemId> {
        let mut batch = Batch::alone(&self.arbiter, orders, permits, tell);
        for attempt in 1..=ALONE_ATTEMPTS_MAX {
            self.write_together(self.pipeline.enter().await, &mut batch).await;
            if batch.locked.is_some() && batch.answers[0].is_none() {
                return batch.locked;
            }
            if batch.answers[0].is_some() || attempt == ALONE_ATTEMPTS_MAX {
                break;
            }
            // Such as after an idle connection turned out to be gone.
            self.arbiter.metrics.arbiter_retries.inc();
            pause(attempt).await;
        }
        batch.answer_rest(&Ok(UNWRITTEN));
        batch.tell_decided();
        None
    }

    /// Writes what can be written together; what stays undecided is to be written in another way.
    async fn write_together(&self, slot: PipelineSlot, batch: &mut Batch<'_>) {
        assert!(batch.purchases.len() <= BATCH_MAX, "a batch is cut before it is written");
        let mut used = match self.connections.get(&self.arbiter.kept).await {
            Ok(used) => used,
            Err(error) => {
                tracing::debug!(%error, "no connection for a batch");
                if batch.is_shared || batch.is_alone {
                    batch.answer_rest(&Ok(Outcome::Unavailable(no_connection(&error))));
                }
                return;
            }
        };
        batch.begins();
        let mut is_usable = self.write_on(slot, &mut used.kept.connection, batch).await;
        if used.kept.destination.has_changed() {
            // A server that was replaced meanwhile has answered: the ledger may not have it.
            batch.doubt_answers();
            is_usable = false;
        }
        if is_usable {
            used.keep();
            return;
        }
        // Its transaction ends with the connection; then the ledger tells what became of a COMMIT.
        drop(used);
        self.recover_lost_commit(batch).await;
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
                Ok(mut orders) => {
                    let written = purchases.iter().copied();
                    let written = written.filter(|one| orders.contains_key(&one.order_id));
                    let all = purchases.iter().copied();
                    protocol!("recovered", all, written = protocol::names(written));
                    for index in asked {
                        let order = orders.remove(&batch.purchases[index].order_id);
                        batch.answers[index] = order.map(|order| Ok(Outcome::Sold(order)));
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

    /// Writes the batch on one connection. Returns `false` when the connection must not be used again. Orders that may
    /// have been written are `Unknown` then.
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
            batch.give_up_late();
            let undecided = candidates.iter().filter(|index| batch.answers[**index].is_none());
            let mut chosen: Vec<usize> = undecided.copied().collect();
            let deadline = batch.deadline();
            if is_pre_checked && !chosen.is_empty() {
                if in_time(deadline, slot.exclusive()).await.is_none() {
                    continue;
                }
                match self.look(connection, batch, &candidates).await {
                    Ok(fitting) => chosen = fitting,
                    Err(_) => return false,
                }
            }
            if chosen.is_empty() {
                return true;
            }
            let tried = self.try_once(connection, &mut slot, batch, &chosen, deadline).await;
            let after = match tried {
                // Those whose time is over are answered, and the others tried again.
                Ok(BatchResult::Late) if !slot.is_overtaken() => {
                    slot.leave();
                    slot.enter_again().await;
                    continue;
                }
                Ok(result) => after_result(batch, &result, &chosen),
                Err(error) => {
                    self.after_error(connection, batch, error, &chosen, &mut candidates).await
                }
            };
            match after {
                AfterTry::Ended { is_usable } => return is_usable,
                AfterTry::Again => continue,
                AfterTry::Objected => {
                    is_pre_checked = true;
                    self.pipeline.set_pre_checked(true);
                }
                AfterTry::RolledBack => {}
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

    /// Looks at the ledger before a batch is written. Returns the candidates that go through together.
    async fn look(
        &self,
        connection: &mut MySqlConnection,
        batch: &mut Batch<'_>,
        candidates: &[usize],
    ) -> sqlx::Result<Vec<usize>> {
        batch.looks();
        let chosen = choose(connection, batch.purchases, candidates, &mut batch.answers);
        let chosen = within(TRANSACTION_MAX, chosen).await;
        let chosen =
            chosen.inspect_err(|error| tracing::debug!(%error, "batch not pre-checked"))?;
        batch.looked(&chosen);
        self.pipeline.set_pre_checked(chosen.len() < candidates.len());
        Ok(chosen)
    }

    /// Tries the transaction with some orders. It does not begin to take the stock long after the deadline.
    async fn try_once(
        &self,
        connection: &mut MySqlConnection,
        slot: &mut PipelineSlot,
        batch: &mut Batch<'_>,
        chosen: &[usize],
        deadline: Option<Instant>,
    ) -> Result<BatchResult, BatchError> {
        let purchases = batch.purchases;
        let picked: Vec<&Purchase> = chosen.iter().map(|&index| &purchases[index]).collect();
        let span = batch.span.common().span("transaction");
        let turn_max = deadline.map(|deadline| deadline + TURN_LATE_MAX);
        let rows = (batch.fence, self.arbiter.outbox, batch.permits);
        commit(connection, &picked, rows, (slot, turn_max, &span)).await
    }

    /// What follows an error of a try. Where the rows of some items are locked, their orders are no candidates any more.
    async fn after_error(
        &self,
        connection: &mut MySqlConnection,
        batch: &mut Batch<'_>,
        error: BatchError,
        chosen: &[usize],
        candidates: &mut Vec<usize>,
    ) -> AfterTry {
        let error = match error {
            BatchError::Before(error) => error,
            BatchError::AtCommit(error) => {
                tracing::warn!(%error, orders = chosen.len(), "COMMIT of a batch not answered");
                self.arbiter.metrics.arbiter_commits_lost.inc();
                for &index in chosen {
                    batch.answers[index] = Some(Ok(UNANSWERED));
                }
                return AfterTry::Ended { is_usable: false };
            }
        };
        self.arbiter.recheck_writer(&error);
        tracing::debug!(%error, "batch rolled back");
        match Fault::of(&error) {
            Fault::Duplicate | Fault::CheckViolated => AfterTry::Objected,
            Fault::Transient if batch.is_shared => {
                let purchases = batch.purchases;
                let items = items_of(chosen.iter().map(|&index| &purchases[index]));
                let Ok(locked) = locked_by_others(connection, &items).await else {
                    return AfterTry::Ended { is_usable: false };
                };
                let is_locked = |one: &Purchase| locked.contains(&one.item.id);
                candidates
                    .retain(|&index| !purchases[lines_at(purchases, index)].iter().any(is_locked));
                AfterTry::RolledBack
            }
            Fault::Transient => AfterTry::RolledBack,
            Fault::Connection => AfterTry::Ended { is_usable: false },
            // A server that refuses writes may have a successor.
            Fault::ReadOnly => {
                if batch.is_shared || batch.is_alone {
                    batch.answer_rest(&Ok(Outcome::Unavailable(Unavailable::ReadOnly)));
                }
                AfterTry::Ended { is_usable: false }
            }
            fault @ (Fault::Full | Fault::DoesNotFit | Fault::Other) if batch.is_alone => {
                tracing::error!(%error, "ledger refused an order");
                batch.answer_rest(&Ok(Outcome::Unavailable(unavailable(fault))));
                AfterTry::Ended { is_usable: true }
            }
            // On a full disk, an order may still fit where a batch does not.
            Fault::AllInUse | Fault::Full | Fault::DoesNotFit | Fault::Other => {
                AfterTry::Ended { is_usable: true }
            }
        }
    }
}

/// What follows a try of a batch's transaction.
enum AfterTry {
    /// No further try; whether the connection may be used again.
    Ended { is_usable: bool },
    /// Once more for the orders that were passed over, if there are any.
    Again,
    /// Another try: nothing was written.
    RolledBack,
    /// Another try, after a look that finds the orders to be refused: nothing was written.
    Objected,
}

/// What follows a try with an answer of the ledger.
fn after_result(batch: &mut Batch<'_>, result: &BatchResult, chosen: &[usize]) -> AfterTry {
    match *result {
        BatchResult::Whole => {
            batch.sold(chosen);
            // Those that were passed over are checked again, unless the others of many items
            // would wait. Each round decides at least one order, so there are no more rounds
            // than orders, and mostly two.
            if !batch.is_shared {
                return AfterTry::Again;
            }
        }
        BatchResult::Fenced(conflict) => batch.answer_rest(&Err(conflict)),
        BatchResult::Locked(item) => batch.locked = Some(item),
        BatchResult::Late => {}
        // Too few are left for all, or for all that there were a moment ago.
        BatchResult::TooFew => return AfterTry::Objected,
    }
    AfterTry::Ended { is_usable: true }
}

/// The first order of each key. A second one with its key waits for it, and then finds it.
fn first_of_their_key(purchases: &[Purchase]) -> Vec<usize> {
    let mut seen = HashSet::with_capacity(purchases.len());
    let mut see = |index: usize| {
        let purchase = &purchases[index];
        seen.insert((purchase.buyer, purchase.item.id, purchase.key.as_str()))
    };
    // All lines are seen, whichever of them was seen before.
    let mut is_first = |lines: &Range<usize>| lines.clone().filter(|&line| !see(line)).count() == 0;
    orders_of(purchases).filter(|lines| is_first(lines)).flatten().collect()
}
