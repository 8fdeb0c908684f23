//! A hold in hand: its fence, its deadline, the signal that it was lost, and giving it back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::acquire::enter_again;
use super::leased::Core;
use super::queue::Turn;
use super::release::ReleaseJob;
use super::stats::{Stats, count};
use super::store::{Grant, LeaseStore, Token, Wakeups};
use crate::{AcquireError, LockName};

/// Proof of a hold. Whoever has it is the only owner of the name until [`Guard::deadline`], which
/// moves on with every renewal.
///
/// [`release`](Guard::release) it when the work is done. A guard that is dropped instead is given
/// back in the background: never blocking, never panicking, also outside a runtime.
#[must_use = "a dropped guard gives the lock back"]
pub struct Guard {
    pub(crate) hold: Arc<Hold>,
    pub(crate) core: Arc<Core>,
    pub(crate) fence: Option<Fence>,
    pub(crate) lost: CancellationToken,
    pub(crate) since: Instant,
    /// It was given back or handed over, so dropping it does nothing.
    pub(crate) over: bool,
}

impl Guard {
    /// The number to store with everything that is written under this hold, and to compare with
    /// what is stored: it is above those of all earlier holders. `None` where the kind has no fences.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The name that is held.
    pub fn name(&self) -> &LockName {
        &self.hold.name
    }

    /// Until when nobody else can hold the name, on this machine's monotonic clock. Start nothing
    /// that has to be finished under the hold but cannot be finished by then.
    pub fn deadline(&self) -> Instant {
        self.hold.locked().deadline
    }

    /// Fires when the hold is over without having been released: at the deadline unless it was
    /// renewed before, or as soon as a renewal learns that the name is not ours any more. It does
    /// not fire after a release.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Whether the hold is over. Looks at the clock itself, so a process that was paused learns the
    /// truth at its first look.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled() || self.hold.is_over_by_the_clock()
    }

    /// Acquires the same name once more for the same owner, whose proof this guard is. The name is
    /// free when all its guards are given back, in whatever order. Never waits.
    ///
    /// # Errors
    /// `InvalidOptions` where the kind is not re-entrant, `Busy` when this hold is over.
    pub async fn enter_again(&self) -> Result<Self, AcquireError> {
        enter_again(self).await
    }

    /// Gives the name back, or hands it over to the next in line, and tells whether it was still
    /// ours.
    ///
    /// Without an answer from the backend it asks again until the lease is over, so bound it with a
    /// time-out where that is too long. Dropping the future hands the rest to the background.
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
        // The next in line starts when the name is free, not before: it would only find it taken.
        let turn = self.hold.locked().turn.take();
        drop(turn);
        outcome
    }

    /// Stops renewal before anything else, so that no renewal can follow the release.
    fn end(&self) -> Ended {
        let ended = self.hold.end();
        self.core.renewals.forget(&self.hold, ended.due);
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
            turn: None,
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
        let turn = self.hold.locked().turn.take();
        if !ended.was_foreign {
            let job = self.job(ended.deadline);
            self.core.releases.submit(ReleaseJob { turn, ..job });
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

/// A number that rises strictly with every acquire of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

impl Fence {
    /// The highest fence: above it a script's floating-point numbers would skip values.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The bare number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What became of a hold when it was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "AlreadyLost means that someone else may have been in the critical section"]
pub enum ReleaseOutcome {
    /// It was ours until now, and the name is free.
    Released,
    /// It was not ours any more, or the lease ended before the backend confirmed the release.
    /// Whoever holds the name now was left alone.
    AlreadyLost,
}

/// What guard and scheduler know of one hold, together. It outlives its first guard when that one
/// hands over.
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
    /// Until when the name is surely ours.
    pub(crate) deadline: Instant,
    /// When the scheduler looks at this hold next: its key in the schedule.
    pub(crate) due: Instant,
    /// Kept while holding, so that the next in line does not ask for what we have.
    pub(crate) turn: Option<Turn>,
    /// The signal of the guard that has the hold now.
    pub(crate) lost: CancellationToken,
    /// What the backend granted, for whoever comes next.
    pub(crate) grant: Grant,
    /// How often it was handed over.
    pub(crate) hand_overs: u32,
    /// Its owner has it more than once, so that no guard alone can hand it over.
    pub(crate) entered_again: bool,
    /// Tells that another process waits.
    pub(crate) signals: Option<Box<dyn Wakeups>>,
}

/// A hold only ever moves forward: held, then perhaps lost, then ended by its guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Held,
    /// The deadline passed; the backend may still keep the name for us for a moment.
    LostByTime,
    /// The backend said that the name is not ours.
    LostToOthers,
    /// The guard was released or dropped.
    Ended,
}

/// What a hold was when its guard ended it.
struct Ended {
    /// There is nothing left to give back.
    was_foreign: bool,
    deadline: Instant,
    due: Instant,
    /// It had not been ended before.
    was_live: bool,
}

impl Hold {
    fn end(&self) -> Ended {
        let mut state = self.locked();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        Ended {
            was_foreign: before == Phase::LostToOthers,
            deadline: state.deadline,
            due: state.due,
            was_live: before != Phase::Ended,
        }
    }

    /// Whether its lease is over, which its `lost` signal may not have told yet.
    pub(crate) fn is_over_by_the_clock(&self) -> bool {
        Instant::now() >= self.locked().deadline
    }

    /// Fires `lost` and lets the next in line try, unless the hold is over already.
    /// Returns whether it did.
    pub(crate) fn lose(&self, how: Phase) -> bool {
        let (turn, lost) = {
            let mut state = self.locked();
            if state.phase != Phase::Held {
                return false;
            }
            state.phase = how;
            (state.turn.take(), state.lost.clone())
        };
        lost.cancel();
        // Dropped outside our lock: passing it on takes the line's own.
        drop(turn);
        true
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, HoldState> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
