//! The guard of a hold: its fence, its deadline, its lost signal, its hand-over, and the release; and what it shares
//! with all guards of its lock.
//!
//! # Hand-over
//! A released hold goes to the next waiter of the same client, without asking the backend.
//!
//! A hand-over costs no round trip, so the callers of one client pass a lock on as fast as a local
//! mutex. Each holder has a guard of its own, with its own lost signal and its own fence out of the
//! block that came with the grant. The hold itself, its token and its renewal go on. The technique
//! is lock cohorting (Dice, Marathe, Shavit: "Lock Cohorting", 2012).
//!
//! The hand-overs of a hold stop, and the name goes back to the backend,
//! * after [`HAND_OVERS_MAX`] hand-overs, or when the fences of the block are used up;
//! * when less than half of the lease is left: renewals fail, so the hold may be lost soon;
//! * when another client waits: after [`HAND_OVERS_CONTENDED_MAX`] hand-overs, or at once where the
//!   kind is fair between clients;
//! * when the next waiter asks for a lease of a different length than the hold has.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hold::{Fence, Hold, HoldState, Phase};
use super::queue::{WaitQueues, WakeReason};
use super::release::{Background, ReleaseJob, ReleaseOutcome, give_back};
use super::renewal::Scheduler;
use super::stats::{Stats, count};
use super::store::LeaseStore;
use crate::{Capabilities, LockName};

/// The most hand-overs of one hold before the backend is asked again.
pub const HAND_OVERS_MAX: u32 = 256;

/// The most hand-overs of one hold while another client is known to wait.
pub const HAND_OVERS_CONTENDED_MAX: u32 = 8;

/// How many fences are asked for per caller that waits already: more will come meanwhile.
const FENCES_PER_WAITER: usize = 4;

/// How many fences an acquire asks for when `waiting` callers wait behind it. Not more than are
/// used: a fence counter that runs ahead of the clock could not be rebuilt from the clock.
pub(crate) fn fences_for(waiting: usize) -> u32 {
    let most = HAND_OVERS_MAX as usize;
    u32::try_from((waiting * FENCES_PER_WAITER).min(most)).unwrap_or(HAND_OVERS_MAX) + 1
}

/// Proof of a hold. Its owner is the only holder of the name until [`Guard::deadline`], which every
/// renewal moves on.
///
/// Call [`release`](Guard::release) when the work is done. A guard that is dropped instead is
/// released in the background; that never blocks and never panics, also outside a runtime.
#[must_use = "a dropped guard gives the lock back"]
pub struct Guard {
    pub(crate) hold: Arc<Hold>,
    pub(crate) core: Arc<Core>,
    /// What renews the hold: the scheduler of the runtime on which it was acquired.
    pub(crate) scheduler: Arc<Scheduler>,
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
        let job = self.end();
        let outcome = if job.was_held {
            give_back(&*self.core.store, &job).await
        } else {
            // Another name of its group, or a vote of Redlock, may be left.
            self.core.background.release(job);
            ReleaseOutcome::AlreadyLost
        };
        self.over = true;
        self.core.stats.count_release(outcome);
        // The next waiter starts when the name is free: before, it would only be refused.
        let head = self.hold.locked().head.take();
        drop(head);
        outcome
    }

    /// Passes the hold on to the next waiter; `false` if nobody waits or a limit forbids it. After
    /// `true` this guard is over.
    fn hand_over(&mut self) -> bool {
        if !self.core.hands_over() {
            return false;
        }
        let mut state = self.hold.locked();
        if !self.may_hand_over(&state) {
            return false;
        }
        loop {
            let Some(call) = state.head.as_ref().and_then(|head| head.pop_waiter(self.hold.lease))
            else {
                return false;
            };
            assert_eq!(state.phase, Phase::Held, "only a live hold is handed over");
            // The first fence of the block that was not given out yet.
            let given_out = u64::from(state.hand_overs) + 1;
            let next_fence = state.grant.fence.map(|first| Fence(first.get() + given_out));
            assert!(
                self.fence.is_none() || next_fence > self.fence,
                "the next holder's fence {next_fence:?} is above {:?}",
                self.fence
            );
            let now = Instant::now();
            let next = Self {
                hold: Arc::clone(&self.hold),
                core: Arc::clone(&self.core),
                scheduler: Arc::clone(&self.scheduler),
                fence: next_fence,
                lost: CancellationToken::new(),
                since: now,
                over: false,
            };
            let before = std::mem::replace(&mut state.lost, next.lost.clone());
            state.hand_overs += 1;
            drop(state);
            let held_for = now - self.since;
            match call.send(WakeReason::Guard(next)) {
                Ok(()) => {
                    self.over = true;
                    let stats = &self.core.stats;
                    stats.hold.add(held_for);
                    count(&stats.acquired);
                    count(&stats.released);
                    count(&stats.handed_over);
                    return true;
                }
                // It has just gone away: as if it had never been asked.
                Err(returned) => {
                    if let WakeReason::Guard(mut unused) = returned {
                        unused.over = true;
                    }
                    state = self.hold.locked();
                    state.lost = before;
                    if !self.may_hand_over(&state) {
                        return false;
                    }
                }
            }
        }
    }

    /// Whether the hold may be handed over now.
    fn may_hand_over(&self, state: &HoldState) -> bool {
        let others_wait = state.grant.others_wait
            || state
                .notifications
                .as_ref()
                .is_some_and(|notifications| notifications.others_wait());
        let most = if !others_wait {
            HAND_OVERS_MAX
        } else if self.core.capabilities.fair_between_processes {
            0
        } else {
            HAND_OVERS_CONTENDED_MAX
        };
        state.phase == Phase::Held
            && !state.entered_again
            && state.hand_overs < most
            && (state.grant.fence.is_none() || state.hand_overs + 1 < state.grant.fences)
            && state.deadline.left() > self.hold.lease / 2
    }

    /// Ends the hold in this process, and answers what is to be released. Stops its renewal first, so that none can
    /// follow the release.
    fn end(&self) -> ReleaseJob {
        let hold = &*self.hold;
        let mut state = hold.locked();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        let due = state.due;
        let give_up_at = state.deadline.instant;
        drop(state);
        self.scheduler.renewals.forget(hold, due);
        if before != Phase::Ended {
            self.core.stats.hold.add(self.since.elapsed());
        }
        ReleaseJob {
            name: hold.name.clone(),
            token: hold.token.clone(),
            lease: hold.lease,
            give_up_at,
            was_held: before != Phase::LostToOthers,
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
        let job = self.end();
        let head = self.hold.locked().head.take();
        self.core.background.release(ReleaseJob { head, ..job });
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

/// The state that the handles, guards and tasks of one lock share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) capabilities: &'static Capabilities,
    pub(crate) queues: Arc<WaitQueues>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) background: Background,
    pub(crate) hands_over: AtomicBool,
}

impl Core {
    /// Whether the kind can hand over and the caller has not switched it off.
    pub(crate) fn hands_over(&self) -> bool {
        self.capabilities.hands_over && self.hands_over.load(Ordering::Relaxed)
    }
}
