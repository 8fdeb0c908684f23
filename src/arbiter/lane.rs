//! Lanes: one line per hot item, written in batches.
//!
//! A lane has no timer. Its next batch is whoever came while the last one wrote its rows, up to a
//! cap, and it writes its own while that one is committed (`turns.rs`): with one buyer at a time a
//! batch is a single order and costs what a direct transaction costs; with a crowd hundreds of
//! orders share one commit. A lane that nobody uses ends by itself. Its writers are tasks of their
//! own, so an order in it is finished whether or not its buyer still waits.

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

use super::batch::{Batches, LaneConnections};
use super::turns::Turns;
use super::{Answer, Arbiter, in_time, is_late};
use crate::domain::{Doubt, ItemId, Outcome, Purchase, Unavailable};

/// Orders of one batch.
pub const BATCH_MAX: usize = 256;
/// Orders that wait in one lane; one more is answered "overloaded".
const WAITING_MAX: usize = 16_384;
/// Batches of one lane that are under way at once: one takes the stock and is committed while the
/// next one's rows are written. More would only wait.
const WRITERS: usize = 2;
/// How long a lane waits for somebody before it ends.
const IDLE_MAX: Duration = Duration::from_millis(250);

/// One order in line.
struct Waiting {
    purchase: Purchase,
    answer: oneshot::Sender<Answer>,
    /// It is in no batch that begins after this instant.
    deadline: Option<Instant>,
    /// Set by a writer that takes it into a batch, or by the buyer's side that takes it back.
    claimed: Arc<AtomicBool>,
}

impl Waiting {
    /// Takes it into a batch, unless it was taken back or its time is over.
    fn begins(&self) -> bool {
        !is_late(self.deadline) && claim(&self.claimed)
    }
}

/// Whether nobody else has claimed it.
fn claim(claimed: &AtomicBool) -> bool {
    !claimed.swap(true, Ordering::AcqRel)
}

/// Who waits in one lane.
struct Line {
    come: mpsc::Receiver<Waiting>,
    /// Those who did not fit in the batch before, in order.
    first: VecDeque<Waiting>,
}

impl Line {
    /// Waits for somebody, for a while.
    async fn has_somebody(&mut self) -> bool {
        if !self.first.is_empty() {
            return true;
        }
        let next = tokio::time::timeout(IDLE_MAX, self.come.recv()).await.ok().flatten();
        self.first.extend(next);
        !self.first.is_empty()
    }

    /// The next batch. A handful of sizes, so that each statement is prepared once and used for
    /// ever; what does not fit is first in the next one. What was taken back, or is late, is in none.
    fn batch(&mut self) -> Vec<Waiting> {
        let room = BATCH_MAX.saturating_sub(self.first.len());
        self.first.extend(std::iter::from_fn(|| self.come.try_recv().ok()).take(room));
        let size = self.first.len().checked_ilog2().map_or(0, |exponent| 1 << exponent);
        let batch: Vec<Waiting> = self.first.drain(..size).filter(Waiting::begins).collect();
        assert!(batch.len() <= BATCH_MAX, "a batch is cut to its bound");
        batch
    }
}

type Entrances = HashMap<ItemId, mpsc::Sender<Waiting>>;

/// The lanes of this process. Clones share them.
#[derive(Clone)]
pub struct Lanes {
    arbiter: Arbiter,
    connections: LaneConnections,
    tasks: TaskTracker,
    /// The lanes that are open. Orders are queued, and lanes end, under this lock alone, so no
    /// order is queued in a lane that has ended.
    entrances: Arc<Mutex<Entrances>>,
}

impl Lanes {
    /// Lanes that write through `arbiter`, over `connections` while they are busy, and run on
    /// `tasks`.
    #[must_use]
    pub fn new(arbiter: Arbiter, connections: LaneConnections, tasks: TaskTracker) -> Self {
        Self { arbiter, connections, tasks, entrances: Arc::default() }
    }

    /// Batches over the connections of the lanes, for who forms them otherwise.
    #[must_use]
    pub fn batches(&self) -> Batches {
        Batches::new(self.arbiter.clone(), self.connections.clone(), Turns::default())
    }

    /// Like [`Arbiter::write`], guarded and without a fence, in the item's lane: for what a gate let
    /// through. Once a batch has it, it is waited for beyond the deadline.
    pub async fn write(&self, purchase: Purchase, deadline: Option<Instant>) -> Outcome {
        let strategy = purchase.strategy;
        let answer = self.write_uncounted(purchase, deadline).await;
        self.arbiter.count(strategy, &answer);
        answer.unwrap_or_else(Outcome::from)
    }

    /// Like [`Lanes::write`] where the lane is the gate, so that its refusals are not those of the
    /// arbiter.
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
        // A lane that broke between its COMMIT and the answer: only the ledger knows.
        answer.unwrap_or(Ok(Outcome::Unknown(Doubt::BrokenOff)))
    }

    /// Whether there was room.
    fn queue(&self, waiting: Waiting) -> bool {
        let item = waiting.purchase.item.id;
        let mut entrances = self.entrances();
        let entrance = entrances.entry(item).or_insert_with(|| self.open(item));
        entrance.try_send(waiting).is_ok()
    }

    /// A lane: some writers that take turns.
    fn open(&self, item: ItemId) -> mpsc::Sender<Waiting> {
        let (entrance, come) = mpsc::channel(WAITING_MAX);
        let line = Arc::new(tokio::sync::Mutex::new(Line { come, first: VecDeque::new() }));
        let turns = Turns::default();
        for _ in 0..WRITERS {
            let batches =
                Batches::new(self.arbiter.clone(), self.connections.clone(), turns.clone());
            self.tasks.spawn(self.clone().serve(item, Arc::clone(&line), batches));
        }
        entrance
    }

    /// One writer of a lane, until nobody has come for a while.
    async fn serve(self, item: ItemId, line: Arc<tokio::sync::Mutex<Line>>, mut batches: Batches) {
        loop {
            let (turn, batch) = {
                let mut line = line.lock().await;
                while !line.has_somebody().await {
                    let mut entrances = self.entrances();
                    if line.come.is_closed() {
                        return;
                    }
                    if line.come.is_empty() {
                        entrances.remove(&item);
                        return;
                    }
                }
                // Who comes while the turn is awaited is in this batch.
                (batches.turn().await, line.batch())
            };
            if batch.is_empty() {
                continue;
            }
            let (purchases, answers): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|one| (one.purchase, one.answer)).unzip();
            self.arbiter.metrics.batch_size.observe(size(purchases.len()));
            // A panic spoils its own batch, whose orders the ledger then tells about, not the lane.
            let written = AssertUnwindSafe(batches.write_at(turn, &purchases, None, None));
            let Ok(decided) = written.catch_unwind().await else { continue };
            assert_eq!(decided.len(), answers.len(), "each order of a batch has one answer");
            for (waiting, answer) in answers.into_iter().zip(decided) {
                // A buyer who has gone is told by the key.
                let _ = waiting.send(answer);
            }
        }
    }

    fn entrances(&self) -> MutexGuard<'_, Entrances> {
        self.entrances.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Lanes({} open)", self.entrances().len())
    }
}

/// At most [`BATCH_MAX`], so the conversion is exact.
fn size(orders: usize) -> f64 {
    u32::try_from(orders).map_or(f64::MAX, f64::from)
}
