//! Hand-over: a released hold goes to the next waiter of the same client, without asking the backend.
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

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::guard::{Fence, Guard, HoldState, Phase};
use super::leased::Core;
use super::queue::WakeReason;
use super::stats::count;

/// The most hand-overs of one hold before the backend is asked again.
pub const HAND_OVERS_MAX: u32 = 256;

/// The most hand-overs of one hold while another client is known to wait.
pub const HAND_OVERS_CONTENDED_MAX: u32 = 8;

/// How many fences are asked for per caller that waits already: more will come meanwhile.
const FENCES_PER_WAITER: usize = 4;

/// How many fences an acquire asks for when `waiting` callers wait behind it. Not more than are
/// used: a fence counter that runs ahead of the clock could not be rebuilt from the clock.
pub(crate) fn fences_for(core: &Core, waiting: usize) -> u32 {
    if !core.hands_over() {
        return 1;
    }
    let most = HAND_OVERS_MAX as usize;
    u32::try_from((waiting * FENCES_PER_WAITER).min(most)).unwrap_or(HAND_OVERS_MAX) + 1
}

impl Guard {
    /// Passes the hold on to the next waiter; `false` if nobody waits or a limit forbids it. After
    /// `true` this guard is over.
    pub(crate) fn hand_over(&mut self) -> bool {
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
            let next_fence = next_fence(&state);
            assert!(
                self.fence.is_none() || next_fence > self.fence,
                "the next holder's fence {next_fence:?} is above {:?}",
                self.fence
            );
            let now = Instant::now();
            let next = Self {
                hold: Arc::clone(&self.hold),
                core: Arc::clone(&self.core),
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

    fn may_hand_over(&self, state: &HoldState) -> bool {
        let others_wait = state.grant.others_wait
            || state
                .notifications
                .as_ref()
                .is_some_and(|notifications| notifications.others_wait());
        let most = match others_wait {
            false => HAND_OVERS_MAX,
            true if self.core.capabilities.fair_between_processes => 0,
            true => HAND_OVERS_CONTENDED_MAX,
        };
        state.phase == Phase::Held
            && !state.entered_again
            && state.hand_overs < most
            && (state.grant.fence.is_none() || state.hand_overs + 1 < state.grant.fences)
            && state.deadline.left() > self.hold.lease / 2
    }
}

/// The first fence of the block that was not given out yet.
fn next_fence(state: &HoldState) -> Option<Fence> {
    state.grant.fence.map(|first| Fence(first.get() + u64::from(state.hand_overs) + 1))
}

impl Core {
    /// Whether the kind can hand over and the caller has not switched it off.
    pub(crate) fn hands_over(&self) -> bool {
        self.capabilities.hands_over && self.hands_over.load(Ordering::Relaxed)
    }
}
