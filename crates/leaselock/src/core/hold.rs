//! One hold: its number, until when it lasts, and how it ends.
//!
//! The monotonic clock, by which tokio waits, stands still while the machine is suspended. The lease at
//! the backend does not. Linux has a second clock that goes on then, `CLOCK_BOOTTIME`: a lease is over
//! when it is over by either. A virtual machine that its host pauses may learn of the pause from
//! neither.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::queue::QueueHead;
use super::stats::{Stats, count, protocol};
use super::store::{Grant, LeaseStore, Subscription, Token, local_lease};
use crate::LockName;
use crate::threads::{Mutex, MutexGuard, locked};

/// A fencing token: a number that rises strictly with every acquire of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// The highest fence, 2^53 - 1: above it the floating-point numbers of Redis scripts skip values.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// One hold, shared by its guard and the renewal scheduler. A hand-over moves it to a new guard.
pub(crate) struct Hold {
    pub(crate) id: u64,
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) state: Mutex<HoldState>,
}

pub(crate) struct HoldState {
    pub(crate) phase: Phase,
    /// Until when nobody else can hold the name.
    pub(crate) deadline: Deadline,
    /// When the scheduler handles this hold next: its key in the schedule.
    pub(crate) due: Instant,
    /// Whether its last renewal has no answer. The next one shares no command: where the names are on
    /// several servers, one that is away keeps back the answers of all.
    pub(crate) renews_alone: bool,
    /// Kept while holding, so that no waiter of this client asks the backend meanwhile.
    pub(crate) head: Option<QueueHead>,
    /// The lost signal of the guard that has the hold now.
    pub(crate) lost: CancellationToken,
    /// The backend's grant: its fences and whether others wait.
    pub(crate) grant: Grant,
    /// How many times it was handed over.
    pub(crate) hand_overs: u32,
    /// Whether its owner has re-entered, so that no single guard can hand it over.
    pub(crate) entered_again: bool,
    /// The subscription that says whether another client waits.
    pub(crate) notifications: Option<Subscription>,
}

/// The life of a hold, which only moves forward: held, then perhaps lost, then ended by its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Held,
    /// Its deadline has passed; the backend may still keep the name for it for a moment.
    LostByTime,
    /// The backend said that another token holds the name, or none.
    LostToOthers,
    /// The guard was released or dropped.
    Ended,
}

impl Hold {
    /// Whether the deadline has passed, perhaps before the `lost` signal could fire.
    pub(crate) fn is_over_by_the_clock(&self) -> bool {
        self.locked().deadline.has_passed()
    }

    /// Fires `lost`, wakes the next waiter and counts the loss, unless the hold is over already.
    pub(crate) fn lose(&self, how: Phase) {
        let head = {
            let mut state = self.locked();
            if state.phase != Phase::Held {
                return;
            }
            state.phase = how;
            protocol!("lost", self.name, self.token);
            // Under our lock: nobody who has released it meanwhile is told afterwards.
            state.lost.cancel();
            state.head.take()
        };
        // Dropped outside our lock, because passing it on takes the lock of the queue.
        drop(head);
        count(&self.stats.lost);
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, HoldState> {
        locked(&self.state)
    }
}

/// A hold, for the backend that keeps it: see [`LeaseStore::watch_hold`].
#[derive(Clone)]
pub struct WatchedHold(Weak<Hold>);

/// Who holds what, while a hold lasts.
pub struct LiveHold {
    /// The name that is held.
    pub name: LockName,
    /// Who holds it.
    pub token: Token,
}

impl WatchedHold {
    pub(crate) fn of(hold: &Arc<Hold>) -> Self {
        Self(Arc::downgrade(hold))
    }

    /// The name and the token, while the hold lasts.
    #[must_use]
    pub fn live(&self) -> Option<LiveHold> {
        let hold = self.0.upgrade()?;
        let is_held = hold.locked().phase == Phase::Held;
        is_held.then(|| LiveHold { name: hold.name.clone(), token: hold.token.clone() })
    }

    /// Fires the lost signal: the backend has said that the token does not hold the name. Does nothing
    /// after a release.
    pub fn lose(&self) {
        if let Some(hold) = self.0.upgrade() {
            hold.lose(Phase::LostToOthers);
        }
    }
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// Since the machine was started, suspended times included; zero where no clock tells.
    since_start: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { instant: Instant::now(), since_start: since_start() }
    }
}

/// The moment until which nobody else can hold a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) instant: Instant,
    since_start: Duration,
}

impl Deadline {
    /// The deadline of a lease whose command was sent at `sent_at`.
    pub(crate) fn of(sent_at: Moment, lease: Duration) -> Self {
        let lasts = local_lease(lease);
        let Moment { instant, since_start } = sent_at;
        Self { instant: instant + lasts, since_start: since_start + lasts }
    }

    /// The later one, of two deadlines of one hold.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.instant > self.instant { other } else { self }
    }

    /// The time that is left, by the clock on which less is left.
    pub(crate) fn left(&self) -> Duration {
        let by_monotonic_clock = self.instant.saturating_duration_since(Instant::now());
        by_monotonic_clock.min(self.since_start.saturating_sub(since_start()))
    }

    /// Whether it has passed by one of the clocks.
    pub(crate) fn has_passed(&self) -> bool {
        Instant::now() >= self.instant || since_start() >= self.since_start
    }
}

#[cfg(target_os = "linux")]
fn since_start() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn since_start() -> Duration {
    Duration::ZERO
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    #[test]
    fn a_lease_that_ended_while_the_machine_was_suspended_has_passed() {
        // The monotonic clock stood still for a lease.
        let mut sent_at = Moment::now();
        assert!(!Deadline::of(sent_at, LEASE).has_passed());
        sent_at.since_start -= LEASE;
        let deadline = Deadline::of(sent_at, LEASE);
        assert!(Instant::now() < deadline.instant);
        assert!(deadline.has_passed(), "another caller may hold the name");
        assert_eq!(deadline.left(), Duration::ZERO, "it must not be handed over");
    }
}
