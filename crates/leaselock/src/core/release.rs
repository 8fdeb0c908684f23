//! Background release of what nobody waits for: dropped guards, and acquires that may or may not have
//! been granted.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::protocol::protocol;
use super::queue::QueueHead;
use super::stats::{Stats, count};
use super::store::{LeaseStore, Token, ask};
use crate::LockName;

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
    /// Whether it was a hold, and not only what a refused acquire may have left behind.
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

/// The queue of the releases that run on one runtime. It is closed when its task has ended.
pub(crate) type ReleaseQueue = mpsc::Sender<ReleaseJob>;

/// A queue, and its receiver for [`run`].
pub(crate) fn queue() -> (ReleaseQueue, mpsc::Receiver<ReleaseJob>) {
    mpsc::channel(QUEUED_MAX)
}

/// Takes the release out of `job`, unless the queue is full or closed.
pub(crate) fn submit(queue: &ReleaseQueue, job: &mut Option<ReleaseJob>) {
    if let Ok(place) = queue.try_reserve()
        && let Some(job) = job.take()
    {
        place.send(job);
    }
}

/// Runs the releases. Ends when the lock and its last guard are gone and the queue is empty.
pub(crate) async fn run(
    mut jobs: mpsc::Receiver<ReleaseJob>,
    store: Arc<dyn LeaseStore>,
    stats: Arc<Stats>,
) {
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
