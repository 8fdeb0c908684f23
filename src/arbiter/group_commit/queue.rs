//! The queues: one for each hot item, written in batches.
//!
//! A queue has no timer. Its next batch is made of the orders that came while the last one wrote
//! its rows, up to a bound, and it writes its own rows while that one is committed (`pipeline.rs`):
//! with one buyer at a time a batch is a single order and costs what a direct transaction costs;
//! under load hundreds of orders share one commit. An idle queue ends by itself. Its writers are
//! tasks of their own, so an order in it is finished whether or not its buyer still waits.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::batch::{BatchConnections, BatchWriter};
use super::pipeline::BatchPipeline;
use crate::arbiter::{Answer, Arbiter, in_time, is_late};
use crate::domain::{Doubt, ItemId, Outcome, Purchase, Unavailable};

/// Orders of one batch.
pub const BATCH_MAX: usize = 256;
/// Orders that wait in one queue; one more is answered "overloaded".
const WAITING_MAX: usize = 16_384;
/// Batches of one item that are under way at once: one takes the stock and is committed while the
/// next one's rows are written. More would only wait.
const WRITERS: usize = 2;
/// How long a queue waits for an order before it ends.
const IDLE_MAX: Duration = Duration::from_millis(250);

/// One order in the queue.
struct Waiting {
    purchase: Purchase,
    answer: oneshot::Sender<Answer>,
    /// The instant after which no batch may begin that has this order.
    deadline: Option<Instant>,
    /// Set by a writer that takes it into a batch, or by the buyer's side that takes it back.
    claimed: Arc<AtomicBool>,
}

impl Waiting {
    /// Takes the order into a batch, unless it was taken back or its time is over.
    fn begins(&self) -> bool {
        !is_late(self.deadline) && claim(&self.claimed)
    }
}

/// Claims an order; `false` when it was claimed before.
fn claim(claimed: &AtomicBool) -> bool {
    !claimed.swap(true, Ordering::AcqRel)
}

/// The orders that wait for one item.
struct ItemQueue {
    come: mpsc::Receiver<Waiting>,
    /// The orders that did not fit in the batch before, in order.
    first: VecDeque<Waiting>,
}

impl ItemQueue {
    /// Waits for an order, for a while.
    async fn has_order(&mut self) -> bool {
        if !self.first.is_empty() {
            return true;
        }
        let next = tokio::time::timeout(IDLE_MAX, self.come.recv()).await.ok().flatten();
        self.first.extend(next);
        !self.first.is_empty()
    }

    /// Cuts the next batch. There are only a few sizes (powers of two), so that each statement is
    /// prepared once; what does not fit is first in the next batch. An order that was taken back,
    /// or is late, is in no batch.
    fn batch(&mut self) -> Vec<Waiting> {
        let free = BATCH_MAX.saturating_sub(self.first.len());
        self.first.extend(std::iter::from_fn(|| self.come.try_recv().ok()).take(free));
        let size = self.first.len().checked_ilog2().map_or(0, |exponent| 1 << exponent);
        let batch: Vec<Waiting> = self.first.drain(..size).filter(Waiting::begins).collect();
        assert!(batch.len() <= BATCH_MAX, "a batch is cut to its bound");
        batch
    }
}

type Entrances = HashMap<ItemId, mpsc::Sender<Waiting>>;

/// The queues of this process. Clones share them.
#[derive(Clone)]
pub struct GroupCommit {
    arbiter: Arbiter,
    connections: BatchConnections,
    tasks: TaskTracker,
    /// The queues that are open. Orders are queued, and queues end, under this lock alone, so no
    /// order gets into a queue that has ended.
    entrances: Arc<Mutex<Entrances>>,
}

impl GroupCommit {
    /// Group commit through `arbiter`, over `connections` while queues are busy, with writers that
    /// run on `tasks`.
    #[must_use]
    pub fn new(arbiter: Arbiter, connections: BatchConnections, tasks: TaskTracker) -> Self {
        Self { arbiter, connections, tasks, entrances: Arc::default() }
    }

    /// A writer over the connections of group commit, for a caller that forms batches itself.
    #[must_use]
    pub fn writer(&self) -> BatchWriter {
        BatchWriter::new(self.arbiter.clone(), self.connections.clone(), BatchPipeline::default())
    }

    /// Like [`Arbiter::write`], guarded and without a fence, in a batch of the item: for purchases
    /// that a gate accepted. Once a batch has the order, its answer is waited for beyond the
    /// deadline.
    pub async fn write(&self, purchase: Purchase, deadline: Option<Instant>) -> Outcome {
        let strategy = purchase.strategy;
        let answer = self.write_uncounted(purchase, deadline).await;
        self.arbiter.count(strategy, &answer);
        answer.unwrap_or_else(Outcome::from)
    }

    /// Like [`GroupCommit::write`], where the batch is the gate, so that its refusals do not count
    /// as the arbiter's.
    pub async fn decide(&self, purchase: Purchase, deadline: Option<Instant>) -> Outcome {
        self.write_uncounted(purchase, deadline).await.unwrap_or_else(Outcome::from)
    }

    async fn write_uncounted(&self, purchase: Purchase, deadline: Option<Instant>) -> Answer {
        let (answer, mut answered) = oneshot::channel();
        let claimed = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&claimed);
        if !self.queue(Waiting { purchase, answer, deadline, claimed }) {
            return Ok(Outcome::Unavailable(Unavailable::Overloaded));
        }
        let answer = match in_time(deadline, &mut answered).await {
            Some(Ok(answer)) => return answer,
            // Too late, and no writer has it.
            _ if claim(&own) => return Ok(Outcome::Unavailable(Unavailable::Contended)),
            Some(broken) => broken,
            None => answered.await,
        };
        // A writer that broke off between its COMMIT and the answer: only the ledger knows.
        answer.unwrap_or(Ok(Outcome::Unknown(Doubt::BrokenOff)))
    }

    /// Queues an order; `false` when the queue is full.
    fn queue(&self, waiting: Waiting) -> bool {
        let item = waiting.purchase.item.id;
        let mut entrances = self.entrances();
        let entrance = entrances.entry(item).or_insert_with(|| self.open(item));
        entrance.try_send(waiting).is_ok()
    }

    /// Opens the queue of an item, with its writers.
    fn open(&self, item: ItemId) -> mpsc::Sender<Waiting> {
        let (entrance, come) = mpsc::channel(WAITING_MAX);
        let queue = Arc::new(tokio::sync::Mutex::new(ItemQueue { come, first: VecDeque::new() }));
        let pipeline = BatchPipeline::default();
        for _ in 0..WRITERS {
            let writer =
                BatchWriter::new(self.arbiter.clone(), self.connections.clone(), pipeline.clone());
            self.tasks.spawn(self.clone().serve(item, Arc::clone(&queue), writer));
        }
        entrance
    }

    /// One writer of a queue, until no order has come for a while.
    async fn serve(
        self,
        item: ItemId,
        queue: Arc<tokio::sync::Mutex<ItemQueue>>,
        mut writer: BatchWriter,
    ) {
        loop {
            let (slot, batch) = {
                let mut queue = queue.lock().await;
                while !queue.has_order().await {
                    let mut entrances = self.entrances();
                    if queue.come.is_closed() {
                        return;
                    }
                    if queue.come.is_empty() {
                        entrances.remove(&item);
                        return;
                    }
                }
                // Orders that come while the slot is awaited are in this batch.
                (writer.enter().await, queue.batch())
            };
            if batch.is_empty() {
                continue;
            }
            let (purchases, answers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|one| (one.purchase, one.answer)).unzip();
            self.arbiter.metrics.batch_size.observe(size(purchases.len()));
            // A panic fails its own batch, whose results are then read from the ledger, not the
            // queue.
            let written = AssertUnwindSafe(writer.write_at(slot, &purchases, None, None));
            let Ok(decided) = written.catch_unwind().await else { continue };
            assert_eq!(decided.len(), answers.len(), "each order of a batch has one answer");
            for (waiting, answer) in answers.into_iter().zip(decided) {
                // The receiver may be dropped: a retry with the key reads the result from the
                // ledger.
                let _ = waiting.send(answer);
            }
        }
    }

    fn entrances(&self) -> MutexGuard<'_, Entrances> {
        self.entrances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for GroupCommit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GroupCommit({} queues)", self.entrances().len())
    }
}

/// At most [`BATCH_MAX`], so the conversion is exact.
fn size(orders: usize) -> f64 {
    u32::try_from(orders).map_or(f64::MAX, f64::from)
}
