//! Named mutual exclusion between processes, as a library that knows nothing of what it guards.
//!
//! # Bird's-eye view
//! A *kind* of lock works on a *backend*. Every kind is a [`Mutex`]: `acquire` a [`LockName`] with
//! [`AcquireOptions`], get a [`Guard`], work, `release` it. The guard carries the [`Fence`] (a
//! number that rises with every acquire, to be checked by whatever stores the guarded data), the
//! local [`deadline`](Guard::deadline) and the [`lost`](Guard::lost) signal.
//!
//! ```text
//! Mutex (trait)                              what callers see
//!   LeasedMutex      leased.rs               the machinery that all leased kinds share:
//!     acquire.rs     one acquire from the call to the guard
//!     waiting.rs     one line per name, first come first served, inside this process
//!     hand_over.rs   passes a hold on to the next of them, without the backend
//!     guard.rs       the hold in hand: fence, deadline, lost signal, release
//!     renewal.rs     one scheduler for all holds: renews, and fires `lost` on time
//!     releaser.rs    gives back what was dropped instead of released
//!   ReadWrite        read_write.rs           two of them: readers share, a writer excludes
//!   MultiMutex       multi.rs                several names, all or none
//! CountdownLatch, SharedCounter (traits)     hold nothing: latch.rs, counter.rs, command.rs
//!   LeaseStore (trait) lease.rs              what a backend must be able to do: four operations
//!     redis/token.rs                         SET NX PX with a random owner, compare-and-delete
//!     redis/reentrant.rs, redis/fair.rs      owners that enter again; a queue between processes
//!     redis/plain.rs                         the same without fence and queue: to be tried
//!     redis/spin.rs, redis/redlock.rs        a key that is only polled; a majority of servers
//!     redis/read_write.rs, redis/multi.rs    readers and a writer; several names in one script
//!     redis/semaphore.rs, expiring_semaphore.rs    so many holders; a lease for each
//!     mysql/table.rs, mysql/named.rs         a row per name; GET_LOCK
//!     etcd/mutex.rs, etcd/read_write.rs, etcd/semaphore.rs   a queue by create revision
//!     zookeeper/queue.rs, zookeeper/fixed.rs ephemeral nodes in a line, or one at the name
//!     local.rs                               this process only: the reference for the tests
//!     redis/setnx.rs, setnx_expire.rs, getset.rs   shown for their faults
//! ```
//!
//! # What holds, whatever the backend
//! * A name has at most one local contender: only the head of the line talks to the backend.
//! * Nobody renews, releases or adopts a hold that is not its own: each acquire mints its own token.
//! * A renewal never creates a hold, and a failed renewal never ends one.
//! * Dropping a future or a guard leaks nothing: what the backend granted is given back.
//! * `lost` runs on the local monotonic clock from *before* the command was sent, so it fires before
//!   the backend can grant the name to anyone else, as long as clock *rates* agree and the process
//!   is not paused. A paused process, a server that lost its data and a failover can still make two
//!   holders: that is what the fence is for.

mod core;
pub mod demo;
pub mod etcd;
pub mod local;
pub mod mysql;
pub mod redis;
pub mod zookeeper;

use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::time::Instant;

pub use self::core::backoff::Manner;
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

/// THE LIST: every kind on every backend that is built, with what it can and cannot do.
pub static KINDS: &[&Capabilities] = &[
    &redis::token::CAPABILITIES,
    &redis::reentrant::CAPABILITIES,
    &redis::fair::CAPABILITIES,
    &redis::plain::CAPABILITIES,
    &redis::spin::CAPABILITIES,
    &redis::redlock::CAPABILITIES,
    &mysql::table::CAPABILITIES,
    &mysql::named::CAPABILITIES,
    &etcd::mutex::CAPABILITIES,
    &etcd::read_write::CAPABILITIES,
    &etcd::semaphore::CAPABILITIES,
    &zookeeper::sequential::CAPABILITIES,
    &zookeeper::spin::CAPABILITIES,
    &zookeeper::reentrant::CAPABILITIES,
    &zookeeper::read_write::CAPABILITIES,
    &zookeeper::semaphore::CAPABILITIES,
    &zookeeper::multi::CAPABILITIES,
    &zookeeper::counter::CAPABILITIES,
    &local::CAPABILITIES,
    &demo::setnx_expire::CAPABILITIES,
    &demo::setnx::CAPABILITIES,
    &demo::getset::CAPABILITIES,
    &redis::read_write::CAPABILITIES,
    &redis::expiring_semaphore::CAPABILITIES,
    &redis::semaphore::CAPABILITIES,
    &redis::multi::CAPABILITIES,
    &local::MULTI_CAPABILITIES,
    &redis::countdown_latch::CAPABILITIES,
    &redis::counter::CAPABILITIES,
];

/// The shortest lease that is accepted. A lease has to hold three commands that all run into their
/// time-out, or one slow reply would already lose the lock.
pub const LEASE_MIN: Duration = Duration::from_millis(300);

/// The longest lease that is accepted: how long a name stays blocked after its holder has died.
pub const LEASE_MAX: Duration = Duration::from_secs(600);

/// Exclusive ownership of a name, shared by everyone who uses the same backend.
pub trait Mutex: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Acquires `name`, waiting as `options.wait` says. Not re-entrant: acquiring a name twice in
    /// one task waits for itself until the deadline.
    ///
    /// Dropping the returned future at any point leaves nothing behind. Needs a tokio runtime.
    fn acquire(
        &self,
        name: &LockName,
        options: AcquireOptions,
    ) -> BoxFuture<'_, Result<Guard, AcquireError>>;

    /// Makes sure that every later acquire of `name` gets a fence above `at_least`. Used when the
    /// guarded store has already seen a higher fence than the backend would mint. Never lowers it.
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
    /// How long the backend keeps the name for us without a renewal, [`LEASE_MIN`] to
    /// [`LEASE_MAX`]. The guard renews it by itself, so this is not a limit to the work: it is how
    /// long others wait after this process has died.
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
    /// Answer [`AcquireError::Busy`] at once. It is also the answer while somebody waits in line.
    Never,
    /// Wait in line until this instant, then answer [`AcquireError::TimedOut`].
    Until(Instant),
    /// The same without a line: this caller asks the backend by itself, as if it were alone in its
    /// process. Every such caller costs the backend as much as a whole process does with a line, so
    /// this is for experiments with ways of waiting, and the caller bounds how many there are.
    Contend {
        /// When to give up.
        until: Instant,
        /// What to do between two looks.
        manner: Manner,
    },
}

impl Wait {
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Never => None,
            Self::Until(until) | Self::Contend { until, .. } => Some(until),
        }
    }

    /// `None`: as the kind does.
    pub(crate) fn manner(self) -> Option<Manner> {
        match self {
            Self::Contend { manner, .. } => Some(manner),
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
    /// The fence is above [`Fence::MAX`], so no higher one could be minted.
    #[error("the fence {0} is above the highest one that can be minted")]
    TooHigh(Fence),
}

/// What a kind of lock on a backend can and cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// What it can be used as.
    pub primitive: Primitive,
    /// The kind, such as `token`.
    pub kind: &'static str,
    /// The backend, such as `redis`.
    pub backend: &'static str,
    /// How it works, in one sentence.
    pub summary: &'static str,
    /// What makes two holders possible, in one sentence. The fence is the answer to these.
    pub breaks_when: &'static str,
    /// Whether the owner may acquire again what it holds.
    pub reentrant: bool,
    /// Whether callers of one process are served first come, first served.
    pub fair_in_process: bool,
    /// Whether callers of different processes are served first come, first served.
    pub fair_between_processes: bool,
    /// Whether a guard renews its lease by itself.
    pub renewed: bool,
    /// Whether a guard tells that it was lost, before anyone else can hold the name.
    pub lost_signal: bool,
    /// What its fences are worth.
    pub fencing: Fencing,
    /// How the process at the head learns that the name has become free.
    pub waiting: Waiting,
    /// Whether waiters of one process pass the lock on without asking the backend.
    pub hands_over: bool,
    /// Whether a hold whose process died ends by itself, at the latest with its lease.
    pub expires: bool,
    /// Whether it excludes other processes, too.
    pub between_processes: bool,
    /// Whether a hold survives the death of one server without a second holder.
    pub survives_failover: bool,
}

/// What a kind can be used as. Only what is a [`Mutex`] excludes everybody else by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Primitive {
    /// One holder.
    Mutex,
    /// Many readers or one writer.
    ReadWrite,
    /// Up to so many holders: a [`LeasedMutex`] that was made with their number.
    Semaphore,
    /// Several names at once, all or none.
    MultiLock,
    /// Waiters go on when a number has been counted down to zero.
    CountdownLatch,
    /// A number that many change without losing an update.
    SharedCounter,
}

/// What the fences of a kind are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// Every acquire gets a higher fence than all before it, also after the backend lost its data,
    /// provided that the backend's clock has not been set back.
    Rising,
    /// Every acquire gets a higher fence than all before it for as long as the backend keeps its
    /// data. One that lost them starts again from below: then the fence has to be raised.
    RisingWhileKept,
    /// There are no fences.
    None,
}

/// How a process learns that a name has become free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// One contender per process asks again with growing, jittered pauses.
    Polls,
    /// The release wakes the next waiter.
    Notified,
}
