//! Whether "sold out" was true when it was told.

use std::collections::VecDeque;

use super::TOLERANCE;

/// Units that became available, or are so no more.
pub(super) struct Change {
    pub(super) time: i64,
    pub(super) units: i64,
}

/// A buyer who wanted units and heard that too few are left.
pub(super) struct Refusal {
    pub(super) time: i64,
    pub(super) units: i64,
}

/// Finds the first refusal that was not true at any moment around its time.
pub(super) fn is_told_early(
    mut changes: Vec<Change>,
    mut refusals: Vec<Refusal>,
) -> Option<Refusal> {
    changes.sort_by_key(|change| (change.time, change.units));
    refusals.sort_by_key(|refusal| (refusal.time, refusal.units));
    // What is available after each change, and before the first.
    let mut left = vec![0];
    left.extend(changes.iter().scan(0, |left, change| {
        *left += change.units;
        Some(*left)
    }));
    let (mut from, mut to) = (0, 0);
    // Indexes of `left` in the window, such that each has less than all behind it.
    let mut least: VecDeque<usize> = VecDeque::new();
    for refusal in refusals {
        while to < left.len() && (to == 0 || changes[to - 1].time <= refusal.time + TOLERANCE) {
            while least.pop_back_if(|last| left[*last] >= left[to]).is_some() {}
            least.push_back(to);
            to += 1;
        }
        while from + 1 < to && changes[from].time <= refusal.time - TOLERANCE {
            from += 1;
        }
        while least.pop_front_if(|first| *first < from).is_some() {}
        if least.front().is_some_and(|first| left[*first] >= refusal.units) {
            return Some(refusal);
        }
    }
    None
}
