//! The guard of a hold: its fence, its deadline, its lost signal, and the release.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::deadline::Deadline;
use super::leased::Core;
use super::queue::QueueHead;
use super::release::ReleaseJob;
use super::renewal::Scheduler;
use super::stats::{Stats, count};
use super::store::{Grant, LeaseStore, Subscription, Token};
use crate::LockName;

/// Proof of a hold. Its owner is the only holder of the name until [`Guard::deadline`], which every
/// renewal moves on.
///
/// Call [`release`](Guard::release) when the work is done. A guard that is dropped instead is
/// released in the background; that never blocks and never panics, also outside a runtime.
#[must_use = "a dropped guard gives the lock back"]
pub struct Guard {
    pub(crate) hold: Arc<Hold>,
    pub(crate) core: Arc<Core>,
    pub(crate) fence: Option<Fence>,
    pub(crate) lost: CancellationToken,
    pub(crate) since: Instant,
    /// Whether it was released or handed over, so that dropping it does nothing.
    pub(crate) over: bool,
}

impl Guard {
    /// The fencing token of this hold: higher than those of all earlier holders. Store it with
    /// everything that is written under the hold, and refuse a write with a lower one. `None` where
    /// the kind has no fences.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The name that is held.
    pub fn name(&self) -> &LockName {
        &self.hold.name
    }

    /// The instant, on this machine's monotonic clock, until which nobody else can hold the name.
    /// Start nothing under the hold that cannot be finished by then.
    pub fn deadline(&self) -> Instant {
        self.hold.locked().deadline.instant
    }

    /// The signal that fires when the hold ends without a release: at the deadline if no renewal
    /// came before it, or as soon as a renewal finds that the name has another holder. It does not
    /// fire after a release.
    pub fn lost(&self) -> LostSignal {
        LostSignal(self.lost.clone())
    }

    /// Whether the hold is over. Reads the clocks, so a process that was stopped gets the right answer
    /// at once; on Linux also after the machine was suspended. A virtual machine that its host paused
    /// may not know of the pause: there only the fence protects the data.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.hold.is_over_by_the_clock()
    }

    /// Releases the name, or hands it over to the next waiter of this client. The outcome says
    /// whether the hold had lasted until then.
    ///
    /// Without an answer from the backend it asks again until the lease is over: use a time-out where
    /// that is too long. Dropping the future leaves the rest to the background.
    pub async fn release(mut self) -> ReleaseOutcome {
        if self.hand_over() {
            return ReleaseOutcome::Released;
        }
        let ended = self.end();
        let outcome = if ended.was_foreign {
            ReleaseOutcome::AlreadyLost
        } else {
            self.core.give_back(&self.job(ended.deadline)).await
        };
        self.over = true;
        self.core.stats.count_release(outcome);
        // The next waiter starts when the name is free: before, it would only be refused.
        let head = self.hold.locked().head.take();
        drop(head);
        outcome
    }

    /// Ends the hold in this process. Stops its renewal first, so that none can follow the release.
    fn end(&self) -> FinalState {
        let ended = self.hold.end();
        self.hold.scheduler.forget(&self.hold, ended.due);
        if ended.was_live {
            self.core.stats.hold.add(self.since.elapsed());
        }
        ended
    }

    fn job(&self, give_up_at: Instant) -> ReleaseJob {
        ReleaseJob {
            name: self.hold.name.clone(),
            token: self.hold.token.clone(),
            lease: self.hold.lease,
            give_up_at,
            was_held: true,
            head: None,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        count(&self.core.stats.released_by_drop);
        if self.hand_over() {
            return;
        }
        let ended = self.end();
        let head = self.hold.locked().head.take();
        if !ended.was_foreign {
            let job = self.job(ended.deadline);
            self.core.background.release(ReleaseJob { head, ..job });
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Guard")
            .field("name", &self.hold.name)
            .field("fence", &self.fence)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

/// The signal that a hold has ended without a release. It can be waited for and asked, and only the
/// library fires it. Clones are one signal.
#[derive(Debug, Clone)]
pub struct LostSignal(CancellationToken);

impl LostSignal {
    /// Waits until the signal fires; for ever when the hold is released.
    pub async fn cancelled(&self) {
        self.0.cancelled().await;
    }

    /// Waits as [`cancelled`](Self::cancelled) does, in a future that borrows nothing.
    pub async fn cancelled_owned(self) {
        self.0.cancelled_owned().await;
    }

    /// Whether the signal has fired. [`Guard::is_lost`] also reads the clock.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

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

/// One hold, shared by its guard and the renewal scheduler. A hand-over moves it to a new guard.
pub(crate) struct Hold {
    pub(crate) id: u64,
    pub(crate) name: LockName,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) stats: Arc<Stats>,
    /// What renews it: the scheduler of the runtime on which it was acquired.
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) state: Mutex<HoldState>,
}

pub(crate) struct HoldState {
    pub(crate) phase: Phase,
    /// Until when nobody else can hold the name.
    pub(crate) deadline: Deadline,
    /// When the scheduler handles this hold next: its key in the schedule.
    pub(crate) due: Instant,
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

/// The state of a hold at the moment when its guard ended it.
struct FinalState {
    /// Whether another token has the name, so that there is nothing to release.
    was_foreign: bool,
    deadline: Instant,
    due: Instant,
    /// Whether it had not been ended before.
    was_live: bool,
}

impl Hold {
    fn end(&self) -> FinalState {
        let mut state = self.locked();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        FinalState {
            was_foreign: before == Phase::LostToOthers,
            deadline: state.deadline.instant,
            due: state.due,
            was_live: before != Phase::Ended,
        }
    }

    /// Whether the deadline has passed, perhaps before the `lost` signal could fire.
    pub(crate) fn is_over_by_the_clock(&self) -> bool {
        self.locked().deadline.has_passed()
    }

    /// Loses it by time, and counts that, unless it is over already.
    pub(crate) fn lose_by_time(&self) {
        if self.lose(Phase::LostByTime) {
            count(&self.stats.lost);
        }
    }

    /// Fires `lost` and wakes the next waiter, unless the hold is over already. Returns whether it
    /// did.
    pub(crate) fn lose(&self, how: Phase) -> bool {
        let (head, lost) = {
            let mut state = self.locked();
            if state.phase != Phase::Held {
                return false;
            }
            state.phase = how;
            (state.head.take(), state.lost.clone())
        };
        lost.cancel();
        // Dropped outside our lock, because passing it on takes the lock of the queue.
        drop(head);
        true
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, HoldState> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
