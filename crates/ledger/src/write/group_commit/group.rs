//! The queues of a process, and the way of an order: to a shared queue, to the queue of its item, or by itself.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::batch::BatchWriter;
use super::batch_orders::{BatchOrders, of_whole_orders};
use super::pipeline::BatchPipeline;
use super::quarantine::{Quarantine, QuarantineCount};
use super::queue::{Asker, BatchQueue, Waiting, claim};
use super::resources::{BatchConnections, BatchTasks};
use super::statements::find_written;
use crate::work::cache::Cache;
use crate::work::item_concurrency::TellWait;
use crate::work::item_permit::{ItemPermit, ItemPermits};
use crate::write::{
    Answer, AnswerSender, Answers, Arbiter, OrderWrite, StockWrite, in_time, pause,
};
use mysql_connection::confirmed;
use shop_domain::{Doubt, ItemId, Order, Outcome, Purchase, Refusal, Unavailable};

/// Items that have a queue of their own at once.
const ITEMS_MAX: usize = 100_000;
/// Doublings, at most, of the pause of an order with several lines that finds rows locked again and again.
const DOUBLINGS_MAX: u32 = 3;

/// The queues of this process. Clones share them.
#[derive(Clone)]
pub struct GroupCommit {
    pub(super) parts: Arc<GroupCommitParts>,
}

pub(super) struct GroupCommitParts {
    arbiter: Arbiter,
    /// Those of the items' own queues.
    connections: BatchConnections,
    pub(super) tasks: BatchTasks,
    pub(super) shared: Vec<Arc<BatchQueue>>,
    own: Cache<ItemId, Arc<BatchQueue>>,
    quarantined: QuarantineCount,
    pub(super) answers: Answers<AnswerSender<Answer>>,
}

impl GroupCommit {
    /// Group commit through `arbiter`, over `connections` while queues are busy, with writers that run on `tasks`. The
    /// items share one queue over each element of `shared`. Each element has
    /// [`SHARED_CONNECTIONS`](super::SHARED_CONNECTIONS), whose sessions wait for a row no longer than a second. If
    /// `shared` is empty, each item has a queue of its own.
    pub fn new(
        arbiter: Arbiter,
        connections: BatchConnections,
        tasks: impl Into<BatchTasks>,
        shared: Vec<BatchConnections>,
    ) -> Self {
        let shared = shared.into_iter().map(|one| Arc::new(BatchQueue::shared(one))).collect();
        let parts = GroupCommitParts {
            quarantined: QuarantineCount::new(arbiter.metrics.batch_suspects.clone()),
            arbiter,
            connections,
            tasks: tasks.into(),
            shared,
            own: Cache::new(ITEMS_MAX),
            answers: Answers::default(),
        };
        Self { parts: Arc::new(parts) }
    }

    /// A writer over the connections of group commit, for a caller that forms batches of one item
    /// itself.
    pub fn writer(&self) -> BatchWriter {
        self.writer_of(self.parts.connections.clone(), BatchPipeline::default())
    }

    /// Like [`Arbiter::write`], guarded and without a fence, in a batch.
    pub async fn write(&self, purchase: Purchase, deadline: Option<Instant>) -> Outcome {
        self.write_order(vec![purchase], deadline, None).await
    }

    /// Writes an order with these lines, all or none, in a batch. The lines are sorted by item, and have the
    /// ids of lines if they are several. Once a batch has the order, its answer is waited for beyond the
    /// deadline. While an order with several lines waits for one of its items alone, `tell_wait` knows which.
    pub async fn write_order(
        &self,
        lines: Vec<Purchase>,
        deadline: Option<Instant>,
        tell_wait: Option<TellWait>,
    ) -> Outcome {
        if let Some(apart) = self.line_apart(&lines) {
            return Outcome::Refused(Refusal::ItemsApart.of_line(apart));
        }
        let queue = self.queue_of(&lines);
        let direct = queue.as_ref().and_then(BatchQueue::direct);
        let Some(queue) = queue.filter(|_| direct.is_none()) else {
            // Boxed: they are rarely awaited, and would make every purchase's future larger.
            if lines.len() > 1 {
                return Box::pin(self.write_alone(&lines, deadline, tell_wait)).await;
            }
            let purchase = &lines[0];
            let stock = StockWrite::Guarded;
            let write = OrderWrite { purchase, fence: None, stock, deadline };
            return Box::pin(self.parts.arbiter.write(&write)).await.unwrap_or_else(Outcome::from);
        };
        let (asker, mut answered, claimed) = Asker::new(deadline, tell_wait);
        if queue.push(self, Waiting::new(lines, asker)).is_err() {
            return Outcome::Unavailable(Unavailable::Overloaded);
        }
        let answer = match in_time(deadline, &mut answered).await {
            Some(Some(answer)) => return answer.unwrap_or_else(Outcome::from),
            // Too late, and no batch has it.
            _ if claim(&claimed) => return Outcome::Unavailable(Unavailable::Contended),
            Some(None) => None,
            None => answered.await,
        };
        // A writer that broke off between its COMMIT and the answer: only the ledger knows.
        let answer = answer.unwrap_or(Ok(Outcome::Unknown(Doubt::BrokenOff)));
        answer.unwrap_or_else(Outcome::from)
    }

    /// Finds the order of a purchase, rejected or not, if an earlier try has written it. Waits for a transaction that
    /// has its row.
    ///
    /// # Errors
    /// The database's; then the order may be there.
    pub async fn find_written(&self, purchase: &Purchase) -> sqlx::Result<Option<Order>> {
        let pool = &self.parts.arbiter.pool;
        let mut found = confirmed(pool, find_written(pool, &[purchase])).await?;
        Ok(found.remove(&purchase.order_id))
    }

    /// The queue that an order belongs to; `None` for one with several lines that no shared queue takes: it is written
    /// by itself. Each item is looked at once, because a quarantine may begin or end at any moment.
    fn queue_of(&self, lines: &[Purchase]) -> Option<Arc<BatchQueue>> {
        let GroupCommitParts { arbiter, shared, .. } = &*self.parts;
        let item = lines[0].item.id;
        let is_apart = lines.iter().any(|line| self.is_quarantined(line.item.id));
        let index = arbiter.shards.queue_of(item.get(), shared.len()).filter(|_| !is_apart);
        match index.and_then(|index| shared.get(index)) {
            Some(shared) => Some(Arc::clone(shared)),
            None => (lines.len() == 1).then(|| self.own_queue(item)),
        }
    }

    /// The item of a line that no transaction writes together with the first one.
    fn line_apart(&self, lines: &[Purchase]) -> Option<ItemId> {
        let first = lines[0].item.id;
        let shards = &self.parts.arbiter.shards;
        let mut others = lines[1..].iter().map(|line| line.item.id);
        others.find(|item| !shards.are_together([first.get(), item.get()].into_iter()))
    }

    fn own_queue(&self, item: ItemId) -> Arc<BatchQueue> {
        let GroupCommitParts { connections, own, quarantined, .. } = &*self.parts;
        let make = || {
            let quarantine = Quarantine::new(quarantined.clone());
            Arc::new(BatchQueue::of_item(item, quarantine, connections.clone()))
        };
        own.get_or_insert_with(item, make)
    }

    /// Writes an order with several lines in a transaction of its own.
    async fn write_alone(
        &self,
        lines: &[Purchase],
        deadline: Option<Instant>,
        tell_wait: Option<TellWait>,
    ) -> Outcome {
        let concurrency = self.parts.arbiter.concurrency.telling(tell_wait);
        let items: Vec<ItemId> = lines.iter().map(|line| line.item.id).collect();
        // What waits for rows of an item waits first, without a connection.
        let pool = &self.parts.arbiter.pool;
        let mut taken = concurrency.acquire_all(&items, pool, deadline).await;
        let mut tries = 0;
        while let Some(permits) = taken {
            // It may wait for the row, too, of the item whose permit it has waited for.
            let wait = concurrency.tell(permits.awaited().map(ItemPermit::item));
            let written = self.write_alone_with(&permits, lines, deadline).await;
            drop(wait);
            match written {
                Ok(outcome) => return outcome,
                Err(item) => {
                    drop(permits);
                    // The other transaction may have a limit of a group and wait for an item that is not in this
                    // order: then no permit and no row of this order shows when to try again.
                    let _ = in_time(deadline, pause(tries)).await;
                    tries = (tries + 1).min(DOUBLINGS_MAX);
                    let none = ItemPermits::default();
                    let within = (pool, deadline);
                    taken = concurrency.acquire_after(none, &items, item, within).await;
                }
            }
        }
        Outcome::Unavailable(Unavailable::Contended)
    }

    /// Tries it once. `Err` when others have the stock row of this item, or the limit of the buyer for it: nothing was
    /// written.
    async fn write_alone_with(
        &self,
        permits: &ItemPermits,
        lines: &[Purchase],
        deadline: Option<Instant>,
    ) -> Result<Outcome, ItemId> {
        let deadlines = vec![deadline; lines.len()];
        let mut answer = Ok(Outcome::Unknown(Doubt::BrokenOff));
        let mut tell = |answers| {
            if let Some((_, whole)) = of_whole_orders(lines, answers).into_iter().next() {
                answer = whole;
            }
        };
        let orders = BatchOrders { purchases: lines, deadlines: &deadlines };
        let pipeline = BatchPipeline::default();
        // What is apart has just refused an order.
        pipeline.set_pre_checked(self.has_quarantined_line(lines));
        let writer = self.writer_of(self.parts.connections.clone(), pipeline);
        match writer.write_alone(permits, orders, &mut tell).await {
            Some(locked) => Err(locked),
            None => Ok(answer.unwrap_or_else(Outcome::from)),
        }
    }

    /// Writes an order with several lines, which a batch or nobody has claimed, on a task of its own.
    pub(super) fn spawn_alone(&self, waiting: Waiting) {
        let group = self.clone();
        let (lines, asker) = waiting.taken();
        self.parts.tasks.spawn(async move {
            let tell_wait = asker.tell_wait.clone();
            let outcome = group.write_alone(&lines, asker.deadline, tell_wait).await;
            asker.answer(Ok(outcome));
        });
    }

    /// Whether an order has several lines, and one of them is of an item in quarantine.
    pub(super) fn has_quarantined_line(&self, lines: &[Purchase]) -> bool {
        lines.len() > 1 && lines.iter().any(|line| self.is_quarantined(line.item.id))
    }

    /// Queues an order in its item's own queue. One with several lines is written by itself.
    pub(super) fn write_apart(&self, waiting: Waiting) {
        if waiting.lines.len() > 1 {
            if waiting.asker.begins() {
                self.spawn_alone(waiting);
            } else {
                waiting.asker.give_up();
            }
            return;
        }
        let queue = self.own_queue(waiting.item());
        if let Err(waiting) = queue.push(self, waiting) {
            waiting.asker.answer(Ok(Outcome::Unavailable(Unavailable::Overloaded)));
        }
    }

    /// Changes the quarantine of an item, and sees to it that it expires.
    pub(super) fn quarantine(&self, item: ItemId, change: impl Fn(&Quarantine)) {
        let queue = self.own_queue(item);
        let Some(quarantine) = queue.quarantine() else { return };
        change(quarantine);
        if quarantine.needs_watch() {
            // Not one of the tasks that a stop waits for.
            tokio::spawn(expire(Arc::downgrade(&queue)));
        }
    }

    pub(super) fn is_quarantined(&self, item: ItemId) -> bool {
        let own = self.has_quarantined().then(|| self.parts.own.get(item)).flatten();
        own.is_some_and(|own| own.quarantine().is_some_and(Quarantine::is_raised))
    }

    pub(super) fn has_quarantined(&self) -> bool {
        self.quarantined() > 0
    }

    pub(super) fn quarantined(&self) -> i64 {
        self.parts.quarantined.get()
    }

    pub(super) fn writer_of(
        &self,
        connections: BatchConnections,
        pipeline: BatchPipeline,
    ) -> BatchWriter {
        BatchWriter::new(self.parts.arbiter.clone(), connections, pipeline)
    }

    /// Counts a batch with its numbers of orders and items.
    pub(super) fn observe(&self, orders: usize, items: usize) {
        let metrics = &self.parts.arbiter.metrics;
        metrics.batch_size.observe(size(orders));
        metrics.batch_items.observe(size(items));
    }
}

/// Ends the quarantine of an item when it is over. Nobody may ask about the item any more, and the
/// number of items in quarantine has to be right.
async fn expire(queue: Weak<BatchQueue>) {
    loop {
        let queue = queue.upgrade();
        let quarantine = queue.as_ref().and_then(|queue| queue.quarantine());
        let Some(next) = quarantine.and_then(|one| one.expire(Instant::now())) else { return };
        drop(queue);
        tokio::time::sleep_until(next).await;
    }
}

/// At most [`BATCH_MAX`](super::BATCH_MAX), so the conversion is exact.
fn size(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::write::tests::{arbiter, item, pool_at};

    #[tokio::test]
    async fn an_item_in_quarantine_is_apart_and_others_are_not() {
        let connections = BatchConnections::new(pool_at(9), 2);
        let group = GroupCommit::new(arbiter(), connections, TaskTracker::new(), Vec::new());
        let [suspect, other] = [1, 2].map(|id| item(id).id);
        assert!(!group.is_quarantined(suspect));
        group.quarantine(suspect, |one| one.raise(Instant::now()));
        assert!(group.is_quarantined(suspect) && !group.is_quarantined(other));
    }
}
