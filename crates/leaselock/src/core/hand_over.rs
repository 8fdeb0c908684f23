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

use std::time::Duration;

use super::hold::{Fence, HoldState, Phase};
use crate::Capabilities;

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

/// Whether the hold of `state`, with this lease, may be handed over now, in a lock of this kind.
pub(crate) fn may_hand_over(kind: &Capabilities, lease: Duration, state: &HoldState) -> bool {
    let others_wait = state.grant.others_wait
        || state.notifications.as_ref().is_some_and(|notifications| notifications.others_wait());
    let most = if !others_wait {
        HAND_OVERS_MAX
    } else if kind.fair_between_processes {
        0
    } else {
        HAND_OVERS_CONTENDED_MAX
    };
    state.phase == Phase::Held
        && !state.entered_again
        && state.hand_overs < most
        && (state.grant.fence.is_none() || state.hand_overs + 1 < state.grant.fences)
        && state.deadline.left() > lease / 2
}

/// The first fence of the block that was not given out yet.
pub(crate) fn next_fence(state: &HoldState) -> Option<Fence> {
    state.grant.fence.map(|first| Fence(first.get() + u64::from(state.hand_overs) + 1))
}
