//! [`LeasedMutex`]: the lock that all backends share. A backend adds only its operations
//! ([`LeaseStore`]); waiting, repeating, renewal, loss and clean-up are done here for all of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use tokio_util::task::TaskTracker;

use super::acquire::acquire;
use super::guard::{Core, Guard};
use super::queue::WaitQueues;
use super::release::Background;
use super::stats::{Stats, count};
use super::store::{LeaseStore, ask};
use crate::{AcquireError, AcquireOptions, Capabilities, Fence, LockName, RaiseFenceError};

/// A lock with names. Of all callers that use the same backend, at most one holds a name. Cheap to clone; all clones are
/// one lock.
#[derive(Clone)]
pub struct LeasedMutex {
    core: Arc<Core>,
}

impl LeasedMutex {
    /// Makes a lock of a backend's operations.
    ///
    /// Its background task runs on `tasks`, on each runtime that acquires; it ends when the last clone
    /// and the last guard are gone, after everything that was dropped has been released. Renewals run
    /// on one scheduler per runtime, which all locks share.
    pub fn start(
        store: Arc<dyn LeaseStore>,
        capabilities: &'static Capabilities,
        tasks: &TaskTracker,
    ) -> Self {
        let stats = Arc::new(Stats::default());
        let own_store = Arc::clone(&store);
        let own_stats = Arc::clone(&stats);
        let core = Core {
            store,
            capabilities,
            queues: WaitQueues::new(Arc::clone(&stats)),
            stats,
            background: Background::new(own_store, own_stats, tasks.clone()),
            hands_over: AtomicBool::new(true),
        };
        Self { core: Arc::new(core) }
    }

    /// Switches hand-over on or off for a kind that has it; it is on from the start. Without it the
    /// backend answers every acquire.
    #[must_use]
    pub fn with_hand_over(self, on: bool) -> Self {
        self.core.hands_over.store(on, Ordering::Relaxed);
        self
    }

    /// What this kind promises, as data.
    pub fn capabilities(&self) -> &'static Capabilities {
        self.core.capabilities
    }

    /// Acquires `name`; `options.wait` says how to wait. Needs a tokio runtime.
    ///
    /// Not re-entrant: a task that acquires a name that it already holds waits for itself until the
    /// instant given in `options.wait` (see [`Guard::enter_again`]); with [`Wait::Never`](crate::Wait::Never) it does
    /// not wait. The returned future may be dropped at any time: a name that was granted is then
    /// released in the background.
    ///
    /// # Errors
    /// See [`AcquireError`]; nothing is held after any of them.
    pub fn acquire(
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

    /// Makes every later fence of `name` higher than `at_least`. Never lowers a fence. Use it when
    /// the data store has already seen a fence that is higher than the fence that the backend would
    /// give out next.
    ///
    /// # Errors
    /// See [`RaiseFenceError`].
    pub async fn raise_fence(
        &self,
        name: &LockName,
        at_least: Fence,
    ) -> Result<(), RaiseFenceError> {
        if at_least >= Fence::MAX {
            return Err(RaiseFenceError::TooHigh(at_least));
        }
        let raised = self.core.store.raise_fence(name, at_least);
        ask(crate::LEASE_MAX, raised).await.map_err(RaiseFenceError::Unavailable)
    }

    /// The counters of this lock, for a metrics layer to read.
    pub fn stats(&self) -> &Stats {
        &self.core.stats
    }
}

/// A lock that many readers or one writer can hold. The guards of both halves are ordinary guards:
/// renewed, with a lost signal, released when dropped.
///
/// The fences in its capabilities are those of `write`. A read guard may have none, since a reader
/// stores nothing.
///
/// A reader cannot become a writer: it would wait for itself. Release `read`, acquire `write`, and
/// read again.
#[derive(Clone, Debug)]
pub struct ReadWrite {
    /// The readers' half: excludes writers only.
    pub read: LeasedMutex,
    /// The writer's half: excludes everybody.
    pub write: LeasedMutex,
}

impl fmt::Debug for LeasedMutex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LeasedMutex")
            .field("capabilities", &self.core.capabilities)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use async_trait::async_trait;
    use futures::poll;
    use tokio::time::Instant;

    use super::super::store::{AcquireResult, BackendError, Grant, StoreResult, Token};
    use super::*;
    use crate::{Wait, local};

    const LEASE: Duration = Duration::from_secs(1);

    /// Grants everything and renews nothing.
    #[derive(Default)]
    struct Generous {
        asked: AtomicU32,
        /// Whether the process stands still beyond the lease while the first answer comes.
        stands_still: bool,
        /// Whether a renewal panics.
        panics: bool,
    }

    #[async_trait]
    impl LeaseStore for Generous {
        async fn acquire(&self, _: &LockName, _: &Token, lease: Duration) -> AcquireResult {
            if self.asked.fetch_add(1, Ordering::SeqCst) == 0 && self.stands_still {
                std::thread::sleep(lease);
            }
            Ok(Some(Grant::UNFENCED))
        }

        async fn renew(
            &self,
            _name: &LockName,
            _token: &Token,
            _lease: Duration,
        ) -> StoreResult<bool> {
            assert!(!self.panics, "planted");
            Err(BackendError::new("not now"))
        }

        async fn release(&self, _name: &LockName, _token: &Token) -> StoreResult<bool> {
            Ok(true)
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
    async fn a_backend_that_panics_ends_no_hold_of_another_one() {
        let (mutex, name, options) =
            start(&Arc::new(Generous { panics: true, ..Generous::default() }));
        let other = local::mutex(&local::Names::default(), &TaskTracker::new());
        let kept = other.acquire(&name, options).await.expect("granted");
        let guard = mutex.acquire(&name, options).await.expect("granted");
        let lost = guard.lost();
        tokio::time::timeout(LEASE * 5, lost.cancelled()).await.expect("nobody renews it");
        assert!(!kept.is_lost(), "it is renewed");
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
