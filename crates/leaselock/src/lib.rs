//! Distributed locks with leases on Redis, MySQL, etcd and ZooKeeper; many kinds also have fences.
//!
//! A lock has a *name*. At any time at most one caller, of all processes that use the same backend,
//! holds a name.
//!
//! ```
//! use std::time::Duration;
//! use leaselock::{AcquireOptions, LockName, Mutex, ReleaseOutcome, Wait, local};
//! use tokio::time::Instant;
//! use tokio_util::task::TaskTracker;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `local` excludes only inside one process; the other backends are made in the same way.
//! let mutex = local::mutex(&local::Names::default(), &TaskTracker::new());
//! let name = LockName::new("nightly:report")?;
//! let wait = Wait::Until(Instant::now() + Duration::from_secs(5));
//! let options = AcquireOptions { lease: Duration::from_secs(10), wait };
//!
//! let guard = mutex.acquire(&name, options).await?;
//! // ... work, and store `guard.fence()` beside everything that is written ...
//! assert_eq!(guard.release().await, ReleaseOutcome::Released);
//! # Ok(())
//! # }
//! ```
//!
//! # Lease, fence, hand-over
//! **Lease.** A process can die while it holds a lock, so the backend grants a name only for a time:
//! the lease. The [`Guard`] renews it in the background at a third of its length. So your work may
//! take longer than the lease. The lease only limits how long others must wait after a holder has
//! died. When renewals fail for too long, the guard's [`lost`](Guard::lost) signal fires at its
//! [`deadline`](Guard::deadline). The deadline is counted from the moment *before* the command was
//! sent. So in kinds with a lost signal ([`Capabilities::lost_signal`]) it comes before the backend
//! can grant the name to another caller, unless the process is paused or the server loses its data.
//!
//! **Fence.** A process that stands still (a paused virtual machine, a swapping host) does not see
//! its lease end, and may write when the next holder works already. No lock can prevent that; only
//! the store that is written to can. So in kinds with fences ([`Capabilities::fencing`]) each
//! acquire of a name gets a number higher than all earlier ones: the [`Fence`]. Store it with the
//! data, and refuse a write whose fence is lower:
//! `UPDATE report SET body = ?, fence = ? WHERE id = ? AND fence <= ?`. The idea and the name are
//! Martin Kleppmann's ("How to do distributed locking", 2016).
//!
//! **Hand-over.** When many callers of one process want the same name, asking the backend for each
//! of them would cost two round trips each time. In some kinds ([`Capabilities::hands_over`]:
//! `redis::token` made with `notified`, `redis::reentrant`, `redis::fair`, and `local`), a holder that
//! releases gives its hold to the next waiter of its own process instead, with a guard and a higher
//! fence of its own, and the backend is not asked. This is known as lock cohorting. It is bounded, so
//! that another process gets the name as well: see [`HAND_OVERS_MAX`] and
//! [`HAND_OVERS_CONTENDED_MAX`].
//!
//! # Promises of every kind
//! * With [`Wait::Never`] and [`Wait::Until`], at most one caller of a process asks the backend for a
//!   name at a time. Ten thousand waiters cost the backend no more than one. ([`Wait::Contend`] has
//!   no queue. A semaphore allows several holders.)
//! * Each acquire has a random token of its own. Nobody renews, releases or takes over a hold with
//!   another token.
//! * A renewal never creates a hold, and a failed renewal never ends one.
//! * Dropping a future or a guard leaks nothing: what the backend granted is given back in the
//!   background.
//! * In kinds with a lost signal, `lost` fires before anyone else can hold the name, if the clocks of
//!   both machines run at the same rate. In three cases `lost` may come too late: the process is
//!   paused, the server loses its data, or it fails over. In these cases only the fence protects
//!   your data.
//!
//! What a kind promises beyond that stands in its [`Capabilities`]; [`KINDS`] lists all of them.
//!
//! # Features
//! | feature | backend | module |
//! |---|---|---|
//! | (always) | this process only | [`local`] |
//! | `redis` (default) | Redis or Valkey, not a cluster | `redis`, and `demo` for textbook locks with their faults |
//! | `mysql` | MySQL or MariaDB | `mysql` |
//! | `etcd` | etcd 3 | `etcd` |
//! | `zookeeper` | ZooKeeper 3.5 or newer | `zookeeper` |
//!
//! A backend of your own implements [`store::LeaseStore`].

mod capabilities;
mod core;
#[cfg(feature = "redis")]
pub mod demo;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod local;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

pub use self::capabilities::{Capabilities, Fencing, KINDS, Primitive, Waiting};
pub use self::core::backoff::WaitStrategy;
pub use self::core::command::CommandError;
pub use self::core::counter::SharedCounter;
pub use self::core::guard::{Fence, Guard, ReleaseOutcome};
pub use self::core::hand_over::{HAND_OVERS_CONTENDED_MAX, HAND_OVERS_MAX};
pub use self::core::latch::CountdownLatch;
pub use self::core::leased::LeasedMutex;
pub use self::core::multi::{MultiGuard, MultiMutex, NAMES_MAX};
pub use self::core::name::{InvalidName, LockName};
pub use self::core::queue::WAITERS_MAX;
pub use self::core::read_write::ReadWrite;
pub use self::core::stats::{Stats, StatsSnapshot, TimesSnapshot};
pub use self::core::{combine, store};

/// The shortest lease that is accepted. Three commands that all run into their time-out fit into
/// it; with a shorter one, a single slow reply would lose the lock.
pub const LEASE_MIN: Duration = Duration::from_millis(300);

/// The longest lease that is accepted: how long a name stays blocked after its holder has died.
pub const LEASE_MAX: Duration = Duration::from_secs(600);

/// A lock with names: at most one caller holds a name, of all that use the same backend.
pub trait Mutex: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Acquires `name`, waiting as `options.wait` says. Needs a tokio runtime.
    ///
    /// Not re-entrant: a task that acquires a name twice waits for itself until the deadline (see
    /// [`Guard::enter_again`]). Dropping the returned future at any point leaves nothing behind.
    ///
    /// # Errors
    /// See [`AcquireError`]; nothing is held after any of them.
    fn acquire(
        &self,
        name: &LockName,
        options: AcquireOptions,
    ) -> BoxFuture<'_, Result<Guard, AcquireError>>;

    /// Makes every later fence of `name` higher than `at_least`. Never lowers it. For use when the
    /// guarded store has already seen a higher fence than the backend would give out.
    ///
    /// # Errors
    /// See [`RaiseFenceError`].
    fn raise_fence(
        &self,
        name: &LockName,
        at_least: Fence,
    ) -> BoxFuture<'_, Result<(), RaiseFenceError>>;

    /// The counters of this lock, for a metrics layer to read.
    fn stats(&self) -> &Stats;
}

/// How to acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquireOptions {
    /// How long the backend keeps the name for this hold without a renewal, [`LEASE_MIN`] to
    /// [`LEASE_MAX`]. The guard renews it by itself, so this does not limit the work: it is how long
    /// others wait after this process has died.
    pub lease: Duration,
    /// What to do when someone else holds the name.
    pub wait: Wait,
}

impl AcquireOptions {
    /// Refuses a lease that cannot be kept safely.
    pub(crate) fn check(&self) -> Result<(), AcquireError> {
        if (LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            return Ok(());
        }
        Err(AcquireError::InvalidOptions(format!(
            "lease is {:?}, but must be between {LEASE_MIN:?} and {LEASE_MAX:?}",
            self.lease
        )))
    }
}

/// What to do when someone else holds the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Answer [`AcquireError::Busy`] at once, also while others wait in the queue.
    Never,
    /// Wait in the queue of this process until this instant, then answer
    /// [`AcquireError::TimedOut`].
    Until(Instant),
    /// Wait until an instant without the queue of this process: the caller asks the backend by
    /// itself. Each such caller costs the backend as much as a whole process does otherwise, so this
    /// is for experiments with ways of waiting, and the caller limits their number.
    Contend {
        /// When to give up.
        until: Instant,
        /// What to do between two attempts.
        strategy: WaitStrategy,
    },
}

impl Wait {
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::Until(until) | Self::Contend { until, .. } => Some(until),
        }
    }

    /// The strategy that the caller chose; `None` leaves it to the kind.
    pub(crate) fn strategy(self) -> Option<WaitStrategy> {
        match self {
            Self::Contend { strategy, .. } => Some(strategy),
            Self::Never | Self::Until(_) => None,
        }
    }
}

/// Why there is no guard. Nothing is held after any of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// Someone else holds the name, or waits for it, and `wait` was [`Wait::Never`].
    #[error("the lock is held by someone else")]
    Busy,
    /// The name did not become free before the deadline.
    #[error("the lock did not become free in time")]
    TimedOut,
    /// [`WAITERS_MAX`] callers of this process are waiting already.
    #[error("too many callers are waiting for locks")]
    TooManyWaiters,
    /// The backend did not answer or answered with an error, several times in a row.
    #[error("the lock backend is unavailable: {0}")]
    Unavailable(String),
    /// The options contradict each other or a limit; the sentence names them.
    #[error("invalid lock options: {0}")]
    InvalidOptions(String),
}

/// Why a fence could not be raised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RaiseFenceError {
    /// The backend did not answer or answered with an error; the fence may or may not be raised.
    /// Asking again is harmless.
    #[error("the lock backend is unavailable: {0}")]
    Unavailable(String),
    /// The fence is above [`Fence::MAX`], so no higher one could be given out.
    #[error("the fence {0} is above the highest one that can be minted")]
    TooHigh(Fence),
}

/// The README's examples are compiled as tests.
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;
