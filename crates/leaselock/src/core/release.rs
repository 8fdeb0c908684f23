//! Releases: those of a guard whose owner waits, and in the background those of dropped guards, and of acquires that may
//! or may not have been granted.
//!
//! On each tokio runtime that acquires, a lock has a worker for releases, beside the scheduler of renewals. A task ends
//! with its runtime, and a lock can be made on one runtime and used on another. So a hold belongs to the runtime on which
//! it was acquired: there it is renewed, and when that runtime ends, the hold is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::runtime::{Handle, Id};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use super::queue::QueueHead;
use super::renewal::Scheduler;
use super::stats::{Stats, count, protocol};
use super::store::{LeaseStore, Token, ask};
use crate::LockName;
use crate::threads::{Mutex, locked};

/// How many releases may wait for the background. A hold beyond that is left to expire.
const QUEUED_MAX: usize = 16_384;

/// How many releases run at the same time, so that one slow answer blocks no other name.
const IN_FLIGHT_MAX: usize = 64;

/// The pause before an unanswered release is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// One hold to be released.
pub(crate) struct ReleaseJob {
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    /// When the lease is over, so that a release has lost its purpose.
    pub(crate) give_up_at: Instant,
    /// Whether it was a hold, and not only what a refused acquire or a lost hold may have left behind.
    pub(crate) was_held: bool,
    /// Passed to the next waiter once the name is free.
    pub(crate) head: Option<QueueHead>,
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "AlreadyLost means that someone else may have been in the critical section"]
pub enum ReleaseOutcome {
    /// The hold lasted until now, and the name is free or handed over.
    Released,
    /// The hold had ended before, or the lease ended before the backend confirmed the release.
    /// The present holder of the name was not touched.
    AlreadyLost,
}

/// The background tasks of one lock, by their runtimes.
pub(crate) struct Background {
    store: Arc<dyn LeaseStore>,
    stats: Arc<Stats>,
    /// Tracks all tasks in the background.
    pub(crate) tasks: TaskTracker,
    workers: Mutex<HashMap<Id, Workers>>,
}

/// The tasks on one runtime. Both end when the lock and its last guard are gone.
struct Workers {
    scheduler: Arc<Scheduler>,
    releases: ReleaseQueue,
}

impl Background {
    pub(crate) fn new(store: Arc<dyn LeaseStore>, stats: Arc<Stats>, tasks: TaskTracker) -> Self {
        Self { store, stats, tasks, workers: Mutex::default() }
    }

    /// The scheduler of the present runtime, started if it does not run.
    pub(crate) fn scheduler(&self) -> Arc<Scheduler> {
        self.on(&Handle::current(), |workers| Arc::clone(&workers.scheduler))
    }

    /// Adds a release. Never waits and never fails: one that does not fit, or for which no runtime is
    /// left, is left to expire.
    pub(crate) fn release(&self, job: ReleaseJob) {
        let mut left = Some(job);
        if let Ok(here) = Handle::try_current() {
            self.on(&here, |workers| submit(&workers.releases, &mut left));
        }
        if left.is_some() {
            let workers = locked(&self.workers);
            workers.values().for_each(|workers| submit(&workers.releases, &mut left));
        }
        if left.is_some() {
            count(&self.stats.left_to_expire);
        }
    }

    /// Calls `act` with the tasks of a runtime, which are started if they do not run.
    fn on<T>(&self, runtime: &Handle, act: impl FnOnce(&Workers) -> T) -> T {
        let mut workers = locked(&self.workers);
        if let Some(running) = workers.get(&runtime.id()).filter(|workers| workers.run()) {
            return act(running);
        }
        workers.retain(|_, workers| workers.run());
        let (releases, jobs) = mpsc::channel(QUEUED_MAX);
        let run = run(jobs, Arc::clone(&self.store), Arc::clone(&self.stats));
        self.tasks.spawn_on(run, runtime);
        let started = Workers { scheduler: Scheduler::of(runtime), releases };
        let answer = act(&started);
        workers.insert(runtime.id(), started);
        answer
    }
}

impl Workers {
    /// Whether both tasks run.
    fn run(&self) -> bool {
        self.scheduler.runs() && !self.releases.is_closed()
    }
}

/// The queue of the releases that run on one runtime. It is closed when its task has ended.
type ReleaseQueue = mpsc::Sender<ReleaseJob>;

/// Takes the release out of `job`, unless the queue is full or closed.
fn submit(queue: &ReleaseQueue, job: &mut Option<ReleaseJob>) {
    if let Ok(place) = queue.try_reserve()
        && let Some(job) = job.take()
    {
        place.send(job);
    }
}

/// Runs the releases. Ends when the lock and its last guard are gone and the queue is empty.
async fn run(mut jobs: mpsc::Receiver<ReleaseJob>, store: Arc<dyn LeaseStore>, stats: Arc<Stats>) {
    stream::poll_fn(move |context| jobs.poll_recv(context))
        .for_each_concurrent(IN_FLIGHT_MAX, |job| async {
            let outcome = give_back(&*store, &job).await;
            // Only now: before, the next waiter would be refused.
            drop(job.head);
            if job.was_held {
                stats.count_release(outcome);
            }
        })
        .await;
}

/// Releases the hold if its token still has it; asks again until there is an answer or the lease is
/// over.
pub(crate) async fn give_back(store: &dyn LeaseStore, job: &ReleaseJob) -> ReleaseOutcome {
    let mut earlier_unanswered = false;
    loop {
        protocol!("release", job.name, job.token);
        let answer = ask(job.lease, store.release(&job.name, &job.token)).await;
        protocol!("released", job.name, job.token, ok = answer.as_ref().ok().copied());
        match answer {
            Ok(true) => return ReleaseOutcome::Released,
            // Before the deadline the lease cannot have run out, so it was our own earlier
            // command that took the hold away, and only its answer was lost.
            Ok(false) if earlier_unanswered && Instant::now() < job.give_up_at => {
                return ReleaseOutcome::Released;
            }
            Ok(false) => return ReleaseOutcome::AlreadyLost,
            Err(_) => earlier_unanswered = true,
        }
        let next = Instant::now() + RETRY_PAUSE;
        if next >= job.give_up_at {
            return ReleaseOutcome::AlreadyLost;
        }
        sleep_until(next).await;
    }
}

impl Stats {
    pub(crate) fn count_release(&self, outcome: ReleaseOutcome) {
        count(match outcome {
            ReleaseOutcome::Released => &self.released,
            ReleaseOutcome::AlreadyLost => &self.already_lost,
        });
    }
}
