//! Tries every schedule, the shortest first, until one sells more units than there are.

use std::collections::HashSet;

use crate::machine::{Action, Machine};

/// Searches all schedules of a machine in which these faults may happen. Returns the shortest one that oversells, if there
/// is one.
///
/// # Panics
/// When the machine has more than `states_max` states.
#[must_use]
pub fn search(machine: &Machine<'_>, faults: &[String], states_max: usize) -> Option<Vec<Action>> {
    let start = machine.start();
    let mut states = vec![start.clone()];
    let mut seen = HashSet::from([start]);
    let mut before: Vec<Option<(usize, Action)>> = vec![None];
    let mut at = 0;
    while at < states.len() {
        let state = states[at].clone();
        if machine.is_oversold(&state) {
            return Some(path(&before, at));
        }
        for action in machine.actions(&state, faults) {
            let after = machine.after(&state, &action);
            if seen.insert(after.clone()) {
                states.push(after);
                before.push(Some((at, action)));
            }
        }
        assert!(states.len() <= states_max, "{} states", states.len());
        at += 1;
    }
    None
}

/// The actions that lead to a state. `before` has the state and the action before each one.
fn path(before: &[Option<(usize, Action)>], end: usize) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut at = end;
    while let Some((previous, action)) = &before[at] {
        actions.push(action.clone());
        at = *previous;
    }
    actions.reverse();
    actions
}
