//! The mutex that all backends with leases share. A backend brings four operations
//! ([`LeaseStore`]); waiting, resending, renewal, loss and clean-up are the same for all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acquire::{Request, acquire};
use super::guard::{Guard, Hold, HoldState, Phase, ReleaseOutcome};
use super::lease::{LeaseStore, ask, local_deadline};
use super::releaser::{self, ReleaseJob, ReleaseQueue};
use super::renewal::{Renewals, renew_at};
use super::stats::{Stats, add_time, count};
use super::waiting::Lines;
use super::{AcquireError, AcquireOptions, Capabilities, Fence, LockName, Mutex, RaiseFenceError};

/// A [`Mutex`] with leases on some backend. Cheap to clone; clones are the same lock.
#[derive(Clone)]
pub struct LeasedMutex {
    core: Arc<Core>,
}

impl LeasedMutex {
    /// Starts the scheduler and the releaser on `tasks`; both end when the last clone and the last
    /// guard are gone, after everything dropped was given back.
    pub(super) fn start(
        store: Arc<dyn LeaseStore>,
        capabilities: &'static Capabilities,
        tasks: &TaskTracker,
    ) -> Self {
        let stats = Arc::new(Stats::default());
        let renewals = Arc::new(Renewals::default());
        let (releases, jobs) = ReleaseQueue::new(Arc::clone(&stats));
        tasks.spawn(Arc::clone(&renewals).run(Arc::clone(&store), Arc::clone(&stats)));
        tasks.spawn(releaser::run(jobs, Arc::clone(&store), Arc::clone(&stats)));
        let core = Core {
            store,
            capabilities,
            lines: Lines::new(Arc::clone(&stats)),
            stats,
            renewals,
            releases,
            tasks: tasks.clone(),
            holds: AtomicU64::new(0),
        };
        Self { core: Arc::new(core) }
    }
}

impl Mutex for LeasedMutex {
    fn capabilities(&self) -> &'static Capabilities {
        self.core.capabilities
    }

    fn acquire(
        &self,
        name: &LockName,
        options: AcquireOptions,
    ) -> BoxFuture<'_, Result<Guard, AcquireError>> {
        let name = name.clone();
        Box::pin(async move {
            let answer = acquire(&self.core, name, options).await;
            match &answer {
                Err(AcquireError::Busy) => count(&self.core.stats.busy),
                Err(AcquireError::TimedOut) => count(&self.core.stats.timed_out),
                Err(AcquireError::Unavailable(_)) => count(&self.core.stats.unavailable),
                _ => {}
            }
            answer
        })
    }

    fn raise_fence(
        &self,
        name: &LockName,
        at_least: Fence,
    ) -> BoxFuture<'_, Result<(), RaiseFenceError>> {
        let name = name.clone();
        Box::pin(async move {
            if at_least >= Fence::MAX {
                return Err(RaiseFenceError::TooHigh(at_least));
            }
            let raised = self.core.store.raise_fence(&name, at_least);
            ask(super::LEASE_MAX, raised)
                .await
                .map_err(|unanswered| RaiseFenceError::Unavailable(unanswered.0))
        })
    }

    fn stats(&self) -> &Stats {
        &self.core.stats
    }
}

impl fmt::Debug for LeasedMutex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeasedMutex")
            .field("capabilities", &self.core.capabilities)
            .finish_non_exhaustive()
    }
}

/// What mutex, guards and tasks of one lock share.
pub(super) struct Core {
    pub(super) store: Arc<dyn LeaseStore>,
    pub(super) capabilities: &'static Capabilities,
    pub(super) lines: Arc<Lines>,
    pub(super) stats: Arc<Stats>,
    pub(super) renewals: Arc<Renewals>,
    pub(super) releases: ReleaseQueue,
    pub(super) tasks: TaskTracker,
    holds: AtomicU64,
}

impl Core {
    pub(super) async fn give_back(&self, job: &ReleaseJob) -> ReleaseOutcome {
        releaser::give_back(&*self.store, job).await
    }

    /// Puts a grant into a guard and under the scheduler's care.
    pub(super) fn guard(
        self: &Arc<Self>,
        request: Request,
        fence: Option<Fence>,
        sent_at: Instant,
    ) -> Guard {
        let Request { name, token, lease, turn, .. } = request;
        // Where several can hold a name, the next one of this process may ask at once.
        let turn = turn.filter(|_| !self.store.shared());
        count(&self.stats.acquired);
        add_time(&self.stats.wait_us, request.asked_at.elapsed());
        let hold = Arc::new(Hold {
            id: self.holds.fetch_add(1, Ordering::Relaxed),
            name,
            token,
            fence,
            lease,
            granted_at: Instant::now(),
            lost: CancellationToken::new(),
            state: std::sync::Mutex::new(HoldState {
                phase: Phase::Held,
                deadline: local_deadline(sent_at, lease),
                due: renew_at(sent_at, lease),
                turn,
            }),
        });
        self.renewals.watch(&hold);
        Guard { hold, core: Arc::clone(self), given_back: false }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.renewals.close();
    }
}
