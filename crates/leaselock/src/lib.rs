//! Distributed locks with leases on Redis, MySQL, etcd and ZooKeeper; many kinds also have fences.
//!
//! The server of a lock is called its *backend*. A [`LeasedMutex`] has many *names*. Of all callers in
//! all programs that use the same backend, at most one holds a name at a time. A granted name
//! is called a *hold*. The caller gets a [`Guard`], the object that stands for the hold. The callers
//! that share one lock object are a *client*; most programs make one lock object and so are one client.
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn example(url: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leaselock::redis::connect(url).await?;
//! let guard = locks.lock("nightly:report").await?;
//! // ... work ...
//! let _ = guard.release().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Locks`] has defaults for everything. Each kind of lock can also be made by itself, with a lease
//! and a way of waiting for each acquire:
//!
//! ```
//! use std::time::Duration;
//! use leaselock::{AcquireOptions, LockName, ReleaseOutcome, Wait, local};
//! use tokio::time::Instant;
//! use tokio_util::task::TaskTracker;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // `local` works inside one process only; the locks of other backends are made in a similar way.
//! // A `TaskTracker` lets a program wait for the background tasks at its end.
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
//! **Lease.** A process can die while it holds a lock, so the backend grants a name only for a
//! time: the lease. In kinds with renewal ([`Capabilities::renewed`]) the guard renews the lease in
//! the background when a third of it has passed. So your work may take longer than the lease. The
//! lease only limits how long other callers must wait after a holder has died. If no renewal
//! succeeds until the guard's [`deadline`](Guard::deadline), the guard's [`lost`](Guard::lost)
//! signal fires. The guard counts the lease on the monotonic clock of this machine. The count
//! starts just before the last successful acquire or renewal was sent. The guard takes one per cent
//! off the lease, because clocks run at different speeds, and another 10 ms, because a timer may
//! fire late. So in kinds with a lost signal ([`Capabilities::lost_signal`]) the deadline comes
//! before the backend can grant the name to another caller. The exceptions are listed
//! [below](#promises-of-every-kind).
//!
//! **Fence.** A paused process (for example in a paused virtual machine) does not see its lease
//! end, and may write after the backend has granted the name to the next holder. No lock can
//! prevent that; only the store that receives the write can. So in kinds with fences
//! ([`Capabilities::fencing`]) each acquire of a name gets a number, the [`Fence`], which is higher
//! than all earlier ones. Store the fence with the data, and refuse a write whose fence is lower:
//! `UPDATE report SET body = ?, fence = ? WHERE id = ? AND fence <= ?`. The idea and the name are
//! Martin Kleppmann's ("How to do distributed locking", 2016).
//!
//! **Hand-over.** If many callers of one client want the same name, each of them normally costs
//! two round trips to the backend: one acquire and one release. Some kinds avoid this
//! ([`Capabilities::hands_over`]: `redis::token` made with `notified`, `redis::reentrant`,
//! `redis::fair`, and `local`): a holder that releases gives its hold to the next waiter of its own
//! client, and the backend is not asked. The waiter gets a guard of its own, with a higher fence.
//! This technique is known as lock cohorting. The number of hand-overs is limited, so that other
//! clients get the name as well: see [`HAND_OVERS_MAX`] and [`HAND_OVERS_CONTENDED_MAX`].
//!
//! # Promises of every kind
//! The textbook locks in `demo` break some of these promises on purpose.
//!
//! * With [`Wait::Never`] and [`Wait::Until`], the callers that share one lock object wait in one
//!   queue per name, and only the first of them asks the backend. Ten thousand waiters cost the
//!   backend no more than one. ([`Wait::Contend`] has no queue. For a semaphore, which allows
//!   several holders, the next caller asks as soon as the one before it has its permit.)
//! * Each acquire has a random token of its own. A hold can be renewed, released or taken over only
//!   with its own token.
//! * A renewal never creates a hold, and a failed renewal never ends one.
//! * If a future or a guard is dropped, the library releases the name in the background.
//! * In kinds with a lost signal, `lost` fires before another caller can hold the name, if the
//!   clocks of both machines run at nearly the same rate (a difference of 1 % is allowed). In four
//!   cases `lost` may come too late: the process is paused, the server loses its data, the server
//!   fails over, or the server's clock jumps ahead. In these cases only the fence protects your
//!   data.
//!
//! The [`Capabilities`] of a kind say what else it promises; [`KINDS`] lists the `Capabilities` of
//! all kinds.
//!
//! # Features
//! | feature | backend | module |
//! |---|---|---|
//! | (always) | this process only | [`local`] |
//! | `redis` (default) | Redis or Valkey; with a connection of the crate `redis-connection` also with Sentinels or as a cluster | `redis`, and `demo` for textbook locks with their faults |
//! | `mysql` | MySQL or MariaDB | `mysql` |
//! | `etcd` | etcd 3 | `etcd` |
//! | `zookeeper` | ZooKeeper 3.5 or newer | `zookeeper` |
//! | `redis-tls`, `mysql-tls`, `etcd-tls` | the backend of that name, with TLS by rustls | |
//!
//! To add a backend of your own, implement [`store::LeaseStore`].

#![warn(missing_docs)]

mod capabilities;
mod core;
#[cfg(feature = "redis")]
pub mod demo;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod local;
mod locks;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "redis")]
pub mod redis;
mod threads {
    //! The locks that threads of this crate share. The crate `interleavings` has a module of this name: it compiles the
    //! files of this crate against locks that try many interleavings of threads.

    use std::sync::PoisonError;
    pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard};

    /// Locks, also after a panic: under no lock can anything panic half-way through a change.
    pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

use std::time::Duration;

use tokio::time::Instant;

pub use self::capabilities::{Capabilities, Fencing, KINDS, Primitive, Waiting};
pub use self::core::backoff::WaitStrategy;
pub use self::core::command::{CommandError, SharedCounter};
pub use self::core::guard::{Guard, HAND_OVERS_CONTENDED_MAX, HAND_OVERS_MAX, LostSignal};
pub use self::core::hold::Fence;
pub use self::core::leased::{LeasedMutex, ReadWrite};
pub use self::core::multi::{MultiGuard, MultiMutex, NAMES_MAX};
pub use self::core::name::{InvalidName, LockName};
pub use self::core::queue::WAITERS_MAX;
pub use self::core::release::ReleaseOutcome;
pub use self::core::stats::{Stats, StatsSnapshot, TimesSnapshot};
pub use self::core::{combine, store};
pub use self::locks::{LEASE_DEFAULT, Locks, WAIT_MAX_DEFAULT};

/// The shortest lease that is accepted. A command may take at most a third of the lease, so with
/// this lease its time-out is 100 ms. A shorter time-out would often expire before a slow reply
/// comes.
pub const LEASE_MIN: Duration = Duration::from_millis(300);

/// The longest lease that is accepted. A name stays blocked for this time if its holder dies.
pub const LEASE_MAX: Duration = Duration::from_secs(600);

/// The options of an acquire: its lease, and its way of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquireOptions {
    /// The time for which the backend keeps the name for this hold without a renewal: [`LEASE_MIN`]
    /// to [`LEASE_MAX`]. The guard renews the lease by itself, so the lease does not limit your
    /// work. It is the time that other callers wait after this process has died.
    pub lease: Duration,
    /// The way to wait while another caller holds the name.
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

/// The way in which an acquire waits while another caller holds the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Do not wait: if another caller holds the name or waits for it, return
    /// [`AcquireError::Busy`].
    Never,
    /// Wait in the queue of this client until this instant, then return
    /// [`AcquireError::TimedOut`].
    Until(Instant),
    /// Wait until an instant without the queue of this client: each caller asks the backend by
    /// itself. Such a caller costs the backend as much as all [`Wait::Until`] callers of a client
    /// together. So use this only for experiments with ways of waiting, and limit the number of
    /// callers.
    Contend {
        /// The instant at which the acquire gives up.
        until: Instant,
        /// The way to wait between two attempts.
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

/// The reason why an acquire failed. Nothing is held after any of these errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another caller holds the name or waits for it, and `wait` was [`Wait::Never`].
    #[error("the lock is held by someone else")]
    Busy,
    /// The name did not become free before the deadline.
    #[error("the lock did not become free in time")]
    TimedOut,
    /// [`WAITERS_MAX`] callers of this client are waiting for names already.
    #[error("too many callers are waiting for locks")]
    TooManyWaiters,
    /// The backend did not answer or answered with an error, several times in a row.
    #[error("the lock backend is unavailable: {0}")]
    Unavailable(#[source] store::BackendError),
    /// The name cannot be the name of a lock.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
    /// The lock does not accept these options; the text says why.
    #[error("invalid lock options: {0}")]
    InvalidOptions(String),
}

/// The reason why a fence could not be raised.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RaiseFenceError {
    /// The backend did not answer or answered with an error; the fence may or may not be raised.
    /// Asking again is harmless.
    #[error("the lock backend is unavailable: {0}")]
    Unavailable(#[source] store::BackendError),
    /// The fence is [`Fence::MAX`] or above, so no higher fence could be given out.
    #[error("the fence {0} is above the highest one that can be minted")]
    TooHigh(Fence),
}

/// The README's examples are compiled as tests.
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;
