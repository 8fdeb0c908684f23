//! Slots that are open, on their way from one node of a cluster to another.
//!
//! While a slot is open, a node runs a command on several keys only if it has all of them, and the
//! node that receives the slot runs none whose keys do not all exist. A script of a free lock has no
//! key that exists, so no node runs it. A move that goes on is waited for; one that was broken off
//! may stay so until an operator sees it, and then each command is refused at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::slot::Slot;

/// How long the commands of an open slot are sent again, from the first refusal on.
const OPEN_MAX: Duration = Duration::from_millis(800);
/// Refusals with a longer time between them belong to two moves.
const REFUSALS_APART_MAX: Duration = Duration::from_secs(2);

/// The slots that refused a command lately.
#[derive(Default)]
pub(crate) struct OpenSlots(Mutex<HashMap<Slot, RefusalTimes>>);

#[derive(Clone, Copy)]
struct RefusalTimes {
    first: Instant,
    last: Instant,
}

impl OpenSlots {
    /// Notes a refusal, and says whether the slot has refused commands for longer than [`OPEN_MAX`].
    pub(crate) fn stays_open(&self, slot: Slot) -> bool {
        self.stays_open_at(slot, Instant::now())
    }

    fn stays_open_at(&self, slot: Slot, now: Instant) -> bool {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|_, refused| now < refused.last + REFUSALS_APART_MAX);
        let refused = refused.entry(slot).or_insert(RefusalTimes { first: now, last: now });
        refused.last = now;
        now - refused.first > OPEN_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_stays_open_when_it_refuses_for_longer_than_a_move_takes() {
        let (slots, slot, other) = (OpenSlots::default(), Slot::of(b"a"), Slot::of(b"b"));
        let begin = Instant::now();
        assert!(!slots.stays_open_at(slot, begin));
        assert!(!slots.stays_open_at(slot, begin + OPEN_MAX));
        let later = begin + OPEN_MAX + Duration::from_millis(1);
        assert!(slots.stays_open_at(slot, later));
        assert!(!slots.stays_open_at(other, later));
        assert!(!slots.stays_open_at(slot, later + REFUSALS_APART_MAX), "another move");
    }
}
