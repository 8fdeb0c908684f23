//! Passing a hold on inside the process: the next in line gets the lock from the guard before it,
//! and the backend is not asked.
//!
//! A hand-over costs no round trip, so a crowd in one process passes a lock on as fast as a local
//! mutex. Each holder has a guard of its own, with a fence of its own out of the block that was
//! minted with the hold, and a lost signal of its own. The hold itself, its token and its renewal
//! go on.
//!
//! It stops, and the name goes back to the backend,
//! * after [`HAND_OVERS_MAX`] hand-overs, or when the fences of the block are used up;
//! * when less than half of the lease is left: renewal does not work, so the hold may be lost soon;
//! * when another process waits: after [`HAND_OVERS_CONTENDED_MAX`] of them, or at once where the
//!   kind is fair between processes;
//! * when the next in line wants another lease than the hold has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::guard::{Fence, Guard, HoldState, Phase};
use super::leased::Core;
use super::queue::Called;
use super::stats::count;

/// So often a hold is passed on at most before the backend is asked again.
pub const HAND_OVERS_MAX: u32 = 256;

/// The same while another process is known to wait.
pub const HAND_OVERS_CONTENDED_MAX: u32 = 8;

/// How many fences are asked for, for each caller that stands in line already: some more will come.
const FENCES_PER_WAITER: usize = 4;

/// How many fences an acquire should ask for when so many wait behind it. Not more than are used,
/// since a counter that ran ahead of the clock could not be rebuilt from it.
pub(crate) fn fences_for(core: &Core, waiting: usize) -> u32 {
    if !core.hands_over() {
        return 1;
    }
    let most = HAND_OVERS_MAX as usize;
    u32::try_from((waiting * FENCES_PER_WAITER).min(most)).unwrap_or(HAND_OVERS_MAX) + 1
}

impl Guard {
    /// Passes the hold on to the next in line; `false` if nobody may have it or nobody waits.
    /// Otherwise this guard is over.
    pub(crate) fn hand_over(&mut self) -> bool {
        if !self.core.hands_over() {
            return false;
        }
        let mut state = self.hold.locked();
        if !self.may_hand_over(&state) {
            return false;
        }
        loop {
            let Some(call) = state.turn.as_ref().and_then(|turn| turn.pop_waiter(self.hold.lease))
            else {
                return false;
            };
            let now = Instant::now();
            let next = Self {
                hold: Arc::clone(&self.hold),
                core: Arc::clone(&self.core),
                fence: next_fence(&state),
                lost: CancellationToken::new(),
                since: now,
                over: false,
            };
            let before = std::mem::replace(&mut state.lost, next.lost.clone());
            state.hand_overs += 1;
            drop(state);
            let held_for = now - self.since;
            match call.send(Called::Guard(next)) {
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
                    if let Called::Guard(mut unused) = returned {
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
            || state.signals.as_ref().is_some_and(|told| told.others_wait());
        let most = match others_wait {
            false => HAND_OVERS_MAX,
            true if self.core.capabilities.fair_between_processes => 0,
            true => HAND_OVERS_CONTENDED_MAX,
        };
        state.phase == Phase::Held
            && !state.entered_again
            && state.hand_overs < most
            && (state.grant.fence.is_none() || state.hand_overs + 1 < state.grant.fences)
            && state.deadline.saturating_duration_since(Instant::now()) > self.hold.lease / 2
    }
}

/// The fence after those that were given out already.
fn next_fence(state: &HoldState) -> Option<Fence> {
    state.grant.fence.map(|first| Fence(first.get() + u64::from(state.hand_overs) + 1))
}

impl Core {
    /// Whether holds are passed on inside the process.
    pub(crate) fn hands_over(&self) -> bool {
        self.capabilities.hands_over && self.hands_over.load(Ordering::Relaxed)
    }
}
