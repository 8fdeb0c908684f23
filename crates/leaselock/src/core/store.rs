//! The operations of a backend. To add a backend of your own, implement the three required operations
//! of [`LeaseStore`] (`acquire`, `renew`, `release`), and `raise_fence` if the kind has fences. Then
//! make a lock of it with [`LeasedMutex::start`](crate::LeasedMutex::start).
//!
//! The library does the rest: the queue of waiters in a client, time-outs, repeated commands,
//! renewal, the lost signal, the release of dropped guards, and hand-over.
//!
//! ```
//! use std::collections::HashMap;
//! use std::sync::{Arc, Mutex as StdMutex};
//! use std::time::Duration;
//! use async_trait::async_trait;
//! use leaselock::store::{AcquireResult, Grant, LeaseStore, StoreResult, Token};
//! use leaselock::{AcquireOptions, Capabilities, Fencing, LeasedMutex, LockName, Wait, local};
//! use tokio::time::Instant;
//! use tokio_util::task::TaskTracker;
//!
//! /// Who holds which name, and until when: a backend in a few lines, without fences.
//! #[derive(Default)]
//! struct Table(StdMutex<HashMap<LockName, (String, Instant)>>);
//!
//! #[async_trait]
//! impl LeaseStore for Table {
//!     async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
//!         let mut table = self.0.lock().unwrap();
//!         let other = table.get(name).is_some_and(|(owner, until)| {
//!             owner != token.as_str() && *until > Instant::now()
//!         });
//!         if other {
//!             return Ok(None);
//!         }
//!         table.insert(name.clone(), (token.as_str().to_owned(), Instant::now() + lease));
//!         Ok(Some(Grant::UNFENCED))
//!     }
//!
//!     async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
//!         let mut table = self.0.lock().unwrap();
//!         match table.get_mut(name) {
//!             Some((owner, until)) if owner == token.as_str() && *until > Instant::now() => {
//!                 *until = Instant::now() + lease;
//!                 Ok(true)
//!             }
//!             _ => Ok(false),
//!         }
//!     }
//!
//!     async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
//!         let mut table = self.0.lock().unwrap();
//!         let ours = table.get(name).is_some_and(|(owner, _)| owner == token.as_str());
//!         if ours {
//!             table.remove(name);
//!         }
//!         Ok(ours)
//!     }
//! }
//!
//! static CAPABILITIES: Capabilities = {
//!     let mut own = Capabilities::LEASED_MUTEX;
//!     (own.kind, own.backend) = ("table", "this process");
//!     (own.summary, own.breaks_when) = ("a table in memory", "a second process works");
//!     own
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mutex = LeasedMutex::start(Arc::new(Table::default()), &CAPABILITIES, &TaskTracker::new());
//! let name = LockName::new("a-name").unwrap();
//! let options = AcquireOptions { lease: Duration::from_secs(10), wait: Wait::Never };
//! let guard = mutex.acquire(&name, options).await.unwrap();
//! assert!(mutex.acquire(&name, options).await.is_err());
//! let _ = guard.release().await;
//! # }
//! ```

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

pub use super::hold::{LiveHold, WatchedHold};
use crate::{Fence, LockName, WaitStrategy};

/// The longest that any command to the backend may take.
const COMMAND_TIMEOUT_MAX: Duration = Duration::from_millis(500);

/// How many commands that all run into their time-out must fit into one lease.
const COMMAND_TIMEOUTS_PER_LEASE: u32 = 3;

/// The backend's clock may run faster than ours by one part in this number.
const CLOCK_DRIFT_PARTS: u32 = 100;

/// Taken off every deadline for timer granularity, here and at the backend, and for a late wake-up.
const DEADLINE_MARGIN: Duration = Duration::from_millis(10);

/// The operations of a backend on a name.
///
/// Each operation is atomic at the backend, and harmless when it is sent again because its answer
/// did not come. Return [`BackendError`] when the command may or may not have run. Set no time-outs:
/// the caller does, by dropping the future.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Grants the name to `token` for `lease`, with a new fence where the kind has fences. Returns
    /// `None` while another token holds the name. If `token` holds it already, the lease starts
    /// anew and the answer has the fence of the first grant.
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult;

    /// Starts the lease anew if `token` holds the name; otherwise changes nothing and returns
    /// `false`.
    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool>;

    /// Frees the name if `token` holds it; otherwise changes nothing and returns `false`.
    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool>;

    /// Whether [`renew_together`](Self::renew_together) is supported.
    fn renews_together(&self) -> bool {
        false
    }

    /// Sends several renewals in one command, each like [`renew`](Self::renew), and returns the results in the order of
    /// the renewals: `None` for a renewal whose result is unknown. Called only where
    /// [`renews_together`](Self::renews_together) says so.
    async fn renew_together(&self, _renewals: &[Renewal]) -> StoreResult<Vec<Option<bool>>> {
        Err(BackendError::new("this kind renews one hold at a time"))
    }

    /// Makes the next fence of `name` higher than `at_least`. A kind without fences returns an
    /// error.
    async fn raise_fence(&self, _name: &LockName, _at_least: Fence) -> StoreResult<()> {
        Err(BackendError::new("this kind has no fences"))
    }

    /// Subscribes to changes of the name; no change after the answer is missed. `None` says that the
    /// kind cannot notify, so its contender asks again after growing pauses.
    async fn watch(&self, _name: &LockName, _token: &Token) -> StoreResult<Option<Subscription>> {
        Ok(None)
    }

    /// Subscribes like [`watch`](Self::watch), but only where that takes no question to the backend;
    /// otherwise `None`. An acquire calls this before its first attempt, and its hold keeps the
    /// subscription.
    fn listen(&self, _name: &LockName, _token: &Token) -> Option<Subscription> {
        None
    }

    /// Takes note of a hold that was granted. A backend that hears when the name is no longer the
    /// token's calls [`WatchedHold::lose`]; without that, the next renewal finds out.
    fn watch_hold(&self, _hold: WatchedHold) {}

    /// How a contender of this kind waits, unless its caller chooses another strategy.
    fn wait_strategy(&self) -> WaitStrategy {
        WaitStrategy::Notified
    }

    /// Whether several tokens can hold a name at the same time. Then callers of one client wait for
    /// each other only while one of them asks, not while it holds.
    fn shared(&self) -> bool {
        false
    }

    /// Whether a refused acquire leaves an entry in a queue at the backend, which a release with
    /// the same token removes.
    fn queues(&self) -> bool {
        false
    }
}

/// One hold to be renewed.
#[derive(Debug)]
pub struct Renewal {
    /// The name that is held.
    pub name: LockName,
    /// Who holds it.
    pub token: Token,
    /// How long the new lease is.
    pub lease: Duration,
}

/// A subscription that says when it is worth asking for a name again.
#[async_trait]
pub trait Notifications: Send {
    /// Waits for the next notification: `true` when the name may have become free since the
    /// subscription began or since the last call returned, `false` when the subscription is broken.
    /// Notifications between two calls are kept for the next one.
    async fn next(&mut self) -> bool;

    /// The grant that came with the notification, when a release has granted the name to this
    /// contender. Only a grant for the attempt number `_attempt` counts: one for an earlier attempt
    /// is over, since a later attempt was refused. See [`Token::attempt`].
    fn granted(&mut self, _attempt: u32) -> Option<Grant> {
        None
    }

    /// Whether another client waits for the name that is held, or may wait because the
    /// subscription is broken.
    fn others_wait(&self) -> bool {
        false
    }
}

/// Notifications of some backend, until they are dropped.
pub type Subscription = Box<dyn Notifications>;

/// The result of a granted acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The first fence; `None` where the kind has no fences.
    pub fence: Option<Fence>,
    /// How many consecutive fences, from the first one on, belong to this hold. The hold can be
    /// handed over once for each further fence.
    pub fences: u32,
    /// Whether another client waits for the name.
    pub others_wait: bool,
}

impl Grant {
    /// A grant of a kind that has no fences.
    pub const UNFENCED: Self = Self { fence: None, fences: 1, others_wait: false };

    /// A grant with one fence.
    #[must_use]
    pub fn fenced(fence: u64) -> Self {
        Self { fence: Some(Fence(fence)), fences: 1, others_wait: false }
    }

    /// A grant with `fences` consecutive fences, or fewer where [`Fence::MAX`] is near.
    #[must_use]
    pub fn block(first: u64, fences: u32, others_wait: bool) -> Self {
        let left = (Fence::MAX.get() + 1).saturating_sub(first);
        let fences = fences.min(u32::try_from(left).unwrap_or(u32::MAX));
        Self { fence: Some(Fence(first)), fences, others_wait }
    }
}

/// The answer of a backend. After an error the command may or may not have run.
pub type StoreResult<T> = Result<T, BackendError>;

/// The answer of a backend to an acquire: `None` while another token holds the name.
pub type AcquireResult = StoreResult<Option<Grant>>;

/// Why a backend gave no usable answer: a sentence for people, and the error of the server's client
/// behind it, if there is one ([`Error::source`]). Two errors are equal if their sentences are.
#[derive(Debug, Clone)]
pub struct BackendError {
    sentence: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl BackendError {
    /// An error with this sentence.
    pub fn new(sentence: impl Into<Arc<str>>) -> Self {
        Self { sentence: sentence.into(), source: None }
    }

    /// An error with the sentence of another one, which is kept as its source.
    pub fn of(source: impl Error + Send + Sync + 'static) -> Self {
        Self::new(source.to_string()).with_source(source)
    }

    /// Keeps the error behind it.
    #[must_use]
    pub fn with_source(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl PartialEq for BackendError {
    fn eq(&self, other: &Self) -> bool {
        self.sentence == other.sentence
    }
}

impl Eq for BackendError {}

/// The identity of one hold: 32 random hexadecimal digits, new for each acquire.
#[derive(Debug, Clone)]
pub struct Token {
    hold: Arc<str>,
    owner: Arc<str>,
    waits: bool,
    fences: u32,
    attempt: u32,
}

impl Token {
    /// A new token for an acquire that asks for `fences` fences, at least one, and `waits` when it
    /// is refused.
    pub(crate) fn mint(waits: bool, fences: u32) -> Self {
        assert!(fences > 0, "an acquire asks for at least one fence");
        let hold = random();
        Self { owner: Arc::clone(&hold), hold, waits, fences, attempt: 0 }
    }

    /// A token for one more hold of the same owner, for kinds that are re-entrant.
    pub(crate) fn again(&self) -> Self {
        Self { hold: random(), owner: Arc::clone(&self.owner), waits: false, fences: 1, attempt: 0 }
    }

    /// Counts an attempt that is about to be sent.
    pub(crate) fn next_attempt(&mut self) {
        self.attempt += 1;
    }

    /// The number of the last attempt that was sent, from 1 on. A backend with a queue stores it
    /// there and names it in a grant, so that a late grant can be told from a new one without a
    /// clock.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the acquire was sent before: then the token may be in a queue, or hold the name
    /// already.
    #[must_use]
    pub fn is_retry(&self) -> bool {
        self.attempt > 1
    }

    /// Whether the acquire waits when it is refused, so that a notification is worth sending.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// How many fences the acquire asks for.
    #[must_use]
    pub fn fences(&self) -> u32 {
        self.fences
    }

    /// The identity of the hold as a shared text.
    #[must_use]
    pub fn shared(&self) -> &Arc<str> {
        &self.hold
    }

    /// The identity of the hold.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.hold
    }

    /// The identity of the owner: the token of its first hold. Differs from
    /// [`as_str`](Self::as_str) only after a re-entry.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }
}

fn random() -> Arc<str> {
    format!("{:032x}", rand::random::<u128>()).into()
}

/// How long a lease surely lasts by our clock, from the moment on when its command was sent.
pub(crate) fn local_lease(lease: Duration) -> Duration {
    (lease - lease / CLOCK_DRIFT_PARTS).saturating_sub(DEADLINE_MARGIN)
}

/// Waits for a backend's answer, but not longer than a command for such a lease may take.
pub(crate) async fn ask<T>(
    lease: Duration,
    answer: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    let limit = COMMAND_TIMEOUT_MAX.min(lease / COMMAND_TIMEOUTS_PER_LEASE);
    match timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(BackendError::new(format!("no answer within {limit:?}"))),
    }
}
