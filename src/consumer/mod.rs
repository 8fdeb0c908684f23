//! The consumers of the queues: they hand queued orders to the arbiter, which decides.
//!
//! # How it works
//! One worker per process serves all items that have a queue. An item with entries in its queue has
//! a task of its own, woken by the gate of this process or by a poll; it reads the entries that no
//! consumer has yet, hands a batch to the item's group commit, and acknowledges each order once the
//! ledger has decided: after COMMIT, never before. A refused order is stored as `rejected`, and its
//! units go back to the counter.
//!
//! A stop empties the queues, for a limited time ([`EMPTYING_MAX`]): with a single instance, what is left waits for the next
//! start, and may be lost with its Redis until then.
//!
//! # What can go wrong
//! * A consumer dies with orders in hand. They stay pending in the group, and another consumer
//!   takes them over after they were idle for `queue.claim_idle_ms`.
//! * An order is delivered twice: its consumer died between COMMIT and ack, or was slow. By the
//!   ledger's keys the second delivery finds the order of the first, and only one ack counts.
//! * The ledger does not answer, or takes no order: the orders stay in the queue and are delivered again.
//! * An order cannot be decided though the ledger takes others. The ledger is asked for it, because an
//!   earlier delivery may have written it. If the ledger does not have it, after `queue.deliveries_max`
//!   deliveries it becomes a dead letter, so that it does not delay others, and stays `queued`
//!   until an operator resolves it.

mod decide;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use mysql_connection::Database;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::live::Hub;
use gates::redis_store::queue::Reader;
use ledger::write::{Arbiter, BATCH_MAX, GroupCommit};
use shop_domain::ItemId;
use shop_metrics::Metrics;
use shop_traces::Traces;

/// How long an item's task waits for more entries before it ends.
const IDLE_MAX: Duration = Duration::from_millis(250);
/// The longest pause after orders could not be decided; the shortest is half of it.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);
/// How long a stop goes on with queued orders that no consumer has yet. Those in hand are finished in any case.
pub const EMPTYING_MAX: Duration = Duration::from_secs(2);
/// The time of a stop is divided by this for a further limit, so that those in hand are finished in time.
const EMPTYING_SHARE: u32 = 4;
/// Time between two removals of ended sales' empty queues from the list.
const SWEEP_PERIOD: Duration = Duration::from_secs(30);

/// The parts of the service that the consumers use.
pub struct ConsumerParts {
    /// The queues.
    pub reader: Reader,
    /// Writes the orders of items with an arbiter, in batches.
    pub group_commit: GroupCommit,
    /// Writes the orders of lab items without an arbiter, and the rejected orders of all items.
    pub arbiter: Arbiter,
    /// The connection pool for reading items.
    pub pool: Database,
    /// Publishes decided orders to their owners.
    pub hub: Hub,
    /// Counts the decisions.
    pub metrics: Metrics,
    /// The strategy that queues the orders.
    pub strategy: &'static str,
    /// Time between two polls of the queues that no gate of this process has woken.
    pub poll: Duration,
    /// How long an order may be with one consumer before another takes it over.
    pub claim_idle: Duration,
    /// Traces of the decisions.
    pub traces: Traces,
    /// Deliveries after which an order that cannot be decided becomes a dead letter.
    pub deliveries_max: u64,
    /// How long a stop may take.
    pub drain: Duration,
}

/// The consumers of this process.
#[derive(Clone)]
pub struct Consumers {
    parts: Arc<ConsumerParts>,
    /// The items that have a task. Wake-ups and the ends of tasks happen under this lock, so that
    /// no wake-up goes to a task that has ended.
    awake: Arc<Mutex<HashMap<ItemId, Arc<Notify>>>>,
    tasks: TaskTracker,
    /// Fires when no further orders are to be taken.
    emptied: CancellationToken,
}

/// The result of one round over an item's queue.
enum Round {
    /// Orders were decided; there may be more.
    Worked,
    /// The queue was empty.
    Empty,
    /// An order could not be decided now.
    Trouble,
}

impl Consumers {
    /// Makes the consumers; [`Self::run`] starts them.
    pub fn new(parts: ConsumerParts) -> Self {
        let emptied = CancellationToken::new();
        Self { parts: Arc::new(parts), awake: Arc::default(), tasks: TaskTracker::new(), emptied }
    }

    /// Works until `stop` fires, then empties the queues for a while, and finishes the orders in hand.
    pub async fn run(self, mut wake_ups: mpsc::Receiver<ItemId>, stop: CancellationToken) {
        let wake = async {
            while let Some(item) = wake_ups.recv().await {
                self.wake(item, &stop);
            }
        };
        // At the same time: a server that a poll waits for delays no wake-up.
        let both = async { tokio::join!(wake, self.poll_periodically(&stop)) };
        let _: Option<((), ())> = stop.run_until_cancelled(both).await;
        self.tasks.close();
        let emptying = async {
            // The gate's last orders may have woken nobody.
            self.poll(false, &stop).await;
            self.tasks.wait().await;
        };
        let emptying_max = EMPTYING_MAX.min(self.parts.drain / EMPTYING_SHARE);
        if timeout(emptying_max, emptying).await.is_err() {
            tracing::info!("queued orders may be left for another instance or the next start");
        }
        self.emptied.cancel();
        self.tasks.wait().await;
    }

    async fn poll_periodically(&self, stop: &CancellationToken) {
        let mut tick = tokio::time::interval(self.parts.poll);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut swept = Instant::now();
        loop {
            tick.tick().await;
            let sweep = swept.elapsed() >= SWEEP_PERIOD;
            if sweep {
                swept = Instant::now();
            }
            self.poll(sweep, stop).await;
        }
    }

    /// Wakes the tasks of all queues that are not empty.
    async fn poll(&self, sweep: bool, stop: &CancellationToken) {
        let reader = &self.parts.reader;
        let items: Vec<ItemId> = match reader.queue().refresh().await {
            Ok(items) => items.into_iter().collect(),
            Err(error) => return tracing::debug!(%error, "list of queues not read"),
        };
        let mut waiting = 0_u64;
        let mut empty = Vec::new();
        let mut failed = None;
        let mut lengths = pin!(reader.lengths(&items));
        while let Some(of_one_server) = lengths.next().await {
            for (item, length) in of_one_server {
                match length {
                    Ok((entries, fields)) => {
                        waiting += entries;
                        if entries > 0 {
                            self.wake(item, stop);
                        } else if fields == 0 {
                            empty.push(item);
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            // An incomplete sum would look like orders that were decided.
            Some(error) => tracing::debug!(%error, "lengths of some queues not read"),
            None => {
                self.parts.metrics.queue_waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
            }
        }
        if sweep && let Err(error) = reader.sweep(&empty).await {
            tracing::debug!(%error, "empty queues not removed from the list");
        }
    }

    fn wake(&self, item: ItemId, stop: &CancellationToken) {
        let mut awake = self.awake();
        let task = awake.entry(item).or_insert_with(|| {
            let notify = Arc::new(Notify::new());
            let consumers = self.clone();
            let stop = stop.clone();
            let woken = Arc::clone(&notify);
            self.tasks.spawn(async move {
                let served = AssertUnwindSafe(consumers.serve(item, &woken, &stop)).catch_unwind();
                if served.await.is_err() {
                    // The next poll makes another task.
                    consumers.awake().remove(&item);
                }
            });
            notify
        });
        task.notify_one();
    }

    /// Serves one item's queue until it was empty for [`IDLE_MAX`]. During a stop, until it is empty or in trouble.
    async fn serve(&self, item: ItemId, woken: &Notify, stop: &CancellationToken) {
        let mut reclaimed: Option<Instant> = None;
        while !self.emptied.is_cancelled() {
            match self.round(item, &mut reclaimed).await {
                Round::Worked => continue,
                Round::Empty | Round::Trouble if stop.is_cancelled() => break,
                Round::Empty => {}
                Round::Trouble => {
                    let pause = TROUBLE_PAUSE.mul_f64(rand::random_range(0.5..1.0));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                    continue;
                }
            }
            let called = tokio::select! {
                called = timeout(IDLE_MAX, woken.notified()) => called.is_ok(),
                () = stop.cancelled() => false,
            };
            if !called {
                break;
            }
        }
        self.awake().remove(&item);
        // A wake-up before this point found this task and started no other.
        if !self.emptied.is_cancelled()
            && matches!(self.round(item, &mut reclaimed).await, Round::Worked)
        {
            self.wake(item, stop);
        }
    }

    /// Takes over the entries that another consumer has had for too long, reads new ones, and
    /// decides both.
    async fn round(&self, item: ItemId, reclaimed: &mut Option<Instant>) -> Round {
        let reader = &self.parts.reader;
        let idle = self.parts.claim_idle;
        let mut entries = Vec::new();
        if reclaimed.is_none_or(|last| last.elapsed() >= idle / 2) {
            match reader.reclaim(item, idle, BATCH_MAX).await {
                Ok(taken_over) => {
                    // More than a batch: the next round continues.
                    *reclaimed = (taken_over.len() < BATCH_MAX).then(Instant::now);
                    entries = taken_over;
                }
                Err(error) => {
                    tracing::debug!(%error, %item, "idle orders not taken over");
                    return Round::Trouble;
                }
            }
        }
        self.parts.metrics.queue_reclaimed.inc_by(u64::try_from(entries.len()).unwrap_or(0));
        // Beside those that were taken over, which may not be decided for a long time.
        if entries.len() < BATCH_MAX {
            match reader.read(item, BATCH_MAX - entries.len()).await {
                Ok(new) => entries.extend(new),
                Err(error) => {
                    tracing::debug!(%error, %item, "queue not read");
                    return Round::Trouble;
                }
            }
        }
        if entries.is_empty() {
            return Round::Empty;
        }
        failpoint!("queue-read");
        if self.decide(item, entries).await { Round::Worked } else { Round::Trouble }
    }

    fn awake(&self) -> MutexGuard<'_, HashMap<ItemId, Arc<Notify>>> {
        self.awake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
