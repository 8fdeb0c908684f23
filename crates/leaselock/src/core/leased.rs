//! The mutex that all backends with leases share. A backend brings four operations
//! ([`LeaseStore`]); waiting, resending, renewal, loss and clean-up are the same for all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acquire::{Request, acquire};
use super::guard::{Guard, Hold, HoldState, Phase, ReleaseOutcome};
use super::queue::Lines;
use super::release::{self, ReleaseJob, ReleaseQueue};
use super::renewal::{Scheduler, renew_at};
use super::stats::{Stats, count};
use super::store::{Grant, LeaseStore, Wakeups, ask, local_deadline};
use crate::{AcquireError, AcquireOptions, Capabilities, Fence, LockName, Mutex, RaiseFenceError};

/// A [`Mutex`] with leases on some backend. Cheap to clone; clones are the same lock.
#[derive(Clone)]
pub struct LeasedMutex {
    core: Arc<Core>,
}

impl LeasedMutex {
    /// Starts the releaser on `tasks`; it ends when the last clone and the last guard are gone, after
    /// everything dropped was given back. The scheduler is shared by all locks of the runtime.
    pub(crate) fn start(
        store: Arc<dyn LeaseStore>,
        capabilities: &'static Capabilities,
        tasks: &TaskTracker,
    ) -> Self {
        let stats = Arc::new(Stats::default());
        let (releases, jobs) = ReleaseQueue::new(Arc::clone(&stats));
        tasks.spawn(release::run(jobs, Arc::clone(&store), Arc::clone(&stats)));
        let core = Core {
            store,
            capabilities,
            lines: Lines::new(Arc::clone(&stats)),
            stats,
            renewals: Scheduler::of_this_runtime(),
            releases,
            tasks: tasks.clone(),
            hands_over: AtomicBool::new(true),
        };
        Self { core: Arc::new(core) }
    }

    /// Whether holds may be passed on inside the process without asking the backend, where the kind
    /// can. They are, unless this switches it off: then every acquire is the backend's own answer.
    #[must_use]
    pub fn with_hand_over(self, on: bool) -> Self {
        self.core.hands_over.store(on, Ordering::Relaxed);
        self
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
            ask(crate::LEASE_MAX, raised)
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

/// Numbers the holds of this process, since all of them share a schedule.
static HOLDS: AtomicU64 = AtomicU64::new(0);

/// What mutex, guards and tasks of one lock share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) capabilities: &'static Capabilities,
    pub(crate) lines: Arc<Lines>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) renewals: Arc<Scheduler>,
    pub(crate) releases: ReleaseQueue,
    pub(crate) tasks: TaskTracker,
    pub(crate) hands_over: AtomicBool,
}

impl Core {
    pub(crate) async fn give_back(&self, job: &ReleaseJob) -> ReleaseOutcome {
        release::give_back(&*self.store, job).await
    }

    /// Puts a grant into a guard and under the scheduler's care.
    pub(crate) fn guard(
        self: &Arc<Self>,
        request: Request,
        grant: Grant,
        sent_at: Instant,
        signals: Option<Box<dyn Wakeups>>,
    ) -> Guard {
        let Request { name, token, lease, turn, .. } = request;
        // Where several can hold a name, the next one of this process may ask at once.
        let turn = turn.filter(|_| !self.store.shared());
        let now = Instant::now();
        count(&self.stats.acquired);
        self.stats.wait.add(now - request.asked_at);
        let lost = CancellationToken::new();
        let hold = Arc::new(Hold {
            id: HOLDS.fetch_add(1, Ordering::Relaxed),
            name,
            token,
            lease,
            store: Arc::clone(&self.store),
            stats: Arc::clone(&self.stats),
            state: std::sync::Mutex::new(HoldState {
                phase: Phase::Held,
                deadline: local_deadline(sent_at, lease),
                due: renew_at(sent_at, lease),
                turn,
                lost: lost.clone(),
                grant,
                hand_overs: 0,
                entered_again: false,
                signals,
            }),
        });
        self.renewals.watch(&hold);
        let core = Arc::clone(self);
        Guard { hold, core, fence: grant.fence, lost, since: now, over: false }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use futures::poll;

    use super::super::store::{StoreFuture, Token, Unanswered};
    use super::*;
    use crate::{Wait, local};

    const LEASE: Duration = Duration::from_secs(1);

    /// Grants everything and renews nothing.
    #[derive(Default)]
    struct Generous {
        asked: AtomicU32,
        /// The process stands still beyond the lease while the first answer comes.
        stands_still: bool,
    }

    impl LeaseStore for Generous {
        fn acquire<'a>(
            &'a self,
            _name: &'a LockName,
            _token: &'a Token,
            lease: Duration,
        ) -> StoreFuture<'a, Option<Grant>> {
            Box::pin(async move {
                if self.asked.fetch_add(1, Ordering::SeqCst) == 0 && self.stands_still {
                    std::thread::sleep(lease);
                }
                Ok(Some(Grant::UNFENCED))
            })
        }

        fn renew<'a>(
            &'a self,
            _name: &'a LockName,
            _token: &'a Token,
            _lease: Duration,
        ) -> StoreFuture<'a, bool> {
            Box::pin(async { Err(Unanswered("not now".to_owned())) })
        }

        fn release<'a>(&'a self, _name: &'a LockName, _token: &'a Token) -> StoreFuture<'a, bool> {
            Box::pin(async { Ok(true) })
        }
    }

    fn start(store: &Arc<Generous>) -> (LeasedMutex, LockName, AcquireOptions) {
        let store: Arc<dyn LeaseStore> = Arc::<Generous>::clone(store);
        let mutex = LeasedMutex::start(store, &local::CAPABILITIES, &TaskTracker::new());
        let wait = Wait::Until(Instant::now() + Duration::from_secs(60));
        (mutex, LockName::new("name").expect("a name"), AcquireOptions { lease: LEASE, wait })
    }

    #[tokio::test]
    async fn a_grant_that_is_read_when_its_lease_is_over_is_asked_for_again() {
        let store = Arc::new(Generous { stands_still: true, ..Generous::default() });
        let (mutex, name, options) = start(&store);
        let guard = mutex.acquire(&name, options).await.expect("granted");
        assert!(store.asked.load(Ordering::SeqCst) > 1, "somebody else may have it by now");
        drop(guard);
    }

    #[tokio::test]
    async fn a_hold_that_is_not_renewed_is_not_passed_on() {
        let store = Arc::new(Generous::default());
        let (mutex, name, options) = start(&store);
        let first = mutex.acquire(&name, options).await.expect("granted");
        let mut second = mutex.acquire(&name, options);
        assert!(poll!(&mut second).is_pending());
        tokio::time::sleep(LEASE * 6 / 10).await;
        let _ = first.release().await;
        drop(second.await.expect("granted"));
        assert_eq!(mutex.stats().snapshot().handed_over, 0, "less than half of the lease is left");
        assert_eq!(store.asked.load(Ordering::SeqCst), 2);
    }
}
