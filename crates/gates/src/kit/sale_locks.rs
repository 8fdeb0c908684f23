//! The locks of one purchase: their names, how they are taken, and the outcome when a lock is not
//! available.

use std::time::Duration;

use super::options::Scope;
use leaselock::combine::SubmitError;
use leaselock::{AcquireError, AcquireOptions, Guard, LeasedMutex, LockName, Wait};
use ledger::write::Fence;
use shop_domain::outcome::Dependency;
use shop_domain::{Doubt, Outcome, Purchase, Refusal, Span, Unavailable};
use tokio::time::timeout;

/// How long a buyer waits for the release of a lock: the outcome is decided already.
const RELEASE_WAIT_MAX: Duration = Duration::from_millis(200);

/// The locks that a sale takes.
pub struct SaleLocks {
    /// The lock that guards the stock.
    pub mutex: LeasedMutex,
    /// The lock of a buyer, which excludes the buyer's second click; it is only tried.
    pub buyers: LeasedMutex,
    /// The counters of its fences; `None` where the lock has no fences that mean anything to
    /// another instance.
    pub fences: Option<FenceCounters>,
    /// The server that the lock is kept on.
    pub dependency: Dependency,
    /// How long a lock is held without a renewal.
    pub lease: Duration,
}

/// The counters that a lock's fences come from, as the ledger names them. Fences of two counters
/// cannot be compared.
#[derive(Clone, Copy, Debug)]
pub struct FenceCounters {
    /// The counter of an item's lock.
    pub item: &'static str,
    /// The counter of the lock for the whole market.
    pub market: &'static str,
}

/// The lock that guards the stock, while it is held.
pub(super) struct Held {
    pub guard: Guard,
    /// The counter that its fence comes from.
    counter: Option<&'static str>,
}

impl Held {
    /// The fence for the arbiter, where there is one that means anything to it.
    pub(super) fn fence(&self) -> Option<Fence> {
        Some(Fence::new(self.counter?, self.guard.fence()?.get()))
    }
}

impl SaleLocks {
    /// Takes the buyer's lock, without waiting, where the scope has one.
    pub(super) async fn try_buyer(
        &self,
        purchase: &Purchase,
        scope: Scope,
    ) -> Result<Option<Guard>, Outcome> {
        if !matches!(scope, Scope::User | Scope::ItemUser) {
            return Ok(None);
        }
        let name = name_of(&format!("user:{}", purchase.buyer));
        let in_progress = Outcome::Refused(Refusal::RequestInProgress);
        self.acquire(&self.buyers, (&name, purchase), Wait::Never, in_progress).await.map(Some)
    }

    /// Takes the lock that guards the stock, where the scope has one.
    pub(super) async fn acquire_shared(
        &self,
        purchase: &Purchase,
        scope: Scope,
        wait: Wait,
    ) -> Result<Option<Held>, Outcome> {
        let (name, counter) = match scope {
            Scope::User => return Ok(None),
            Scope::Item | Scope::ItemUser => {
                (item_lock(purchase), self.fences.map(|fences| fences.item))
            }
            Scope::Market => (name_of("market"), self.fences.map(|fences| fences.market)),
        };
        let contended = Outcome::Unavailable(Unavailable::Contended);
        let guard = self.acquire(&self.mutex, (&name, purchase), wait, contended).await?;
        Ok(Some(Held { guard, counter }))
    }

    async fn acquire(
        &self,
        mutex: &LeasedMutex,
        (name, purchase): (&LockName, &Purchase),
        wait: Wait,
        taken: Outcome,
    ) -> Result<Guard, Outcome> {
        let options = AcquireOptions { lease: self.lease, wait };
        let _span = lock_wait(purchase, name);
        mutex.acquire(name, options).await.map_err(|error| self.not_acquired(&error, taken))
    }

    fn not_acquired(&self, error: &AcquireError, taken: Outcome) -> Outcome {
        match error {
            AcquireError::Busy | AcquireError::TimedOut => taken,
            AcquireError::TooManyWaiters => Outcome::Unavailable(Unavailable::Overloaded),
            _ => {
                tracing::warn!(%error, "lock not acquired");
                Outcome::Unavailable(Unavailable::Dependency(self.dependency))
            }
        }
    }

    /// The outcome when a batch has no answer for a purchase.
    pub(super) fn not_submitted(&self, error: SubmitError) -> Outcome {
        let contended = Outcome::Unavailable(Unavailable::Contended);
        match error {
            SubmitError::QueueFull => Outcome::Unavailable(Unavailable::Overloaded),
            SubmitError::TimedOut => contended,
            SubmitError::NotLocked(error) => self.not_acquired(&error, contended),
            // After any other error it may have been done.
            _ => Outcome::Unknown(Doubt::BrokenOff),
        }
    }
}

/// Raises a lock's fence counter to the fence that the ledger has accepted: either our hold is
/// over, or the lock lost its counter and its clock is behind. Raising is right in both cases.
pub(super) async fn catch_up(mutex: &LeasedMutex, name: &LockName, accepted: u64) {
    mutex.stats().count_fenced();
    if let Err(error) = mutex.raise_fence(name, leaselock::Fence(accepted)).await {
        tracing::warn!(%error, "fence counter not raised");
    }
}

/// The span of the wait for a lock.
pub(super) fn lock_wait(purchase: &Purchase, name: &LockName) -> Span {
    let mut span = purchase.trace.span("lock wait");
    span.set("lock", name.as_str());
    span
}

/// The name of an item's lock.
pub(super) fn item_lock(purchase: &Purchase) -> LockName {
    name_of(&format!("{{item:{}}}", purchase.item.id))
}

/// A name made of digits and fixed words.
fn name_of(text: &str) -> LockName {
    LockName::new(text).expect("made of digits and fixed words")
}

/// Gives a lock back, if there is one; in the background where its server does not answer soon.
pub(super) async fn release(guard: Option<Guard>) {
    if let Some(guard) = guard {
        // Lost meanwhile or not: the write is decided already, by its fence.
        let _ = timeout(RELEASE_WAIT_MAX, guard.release()).await;
    }
}
