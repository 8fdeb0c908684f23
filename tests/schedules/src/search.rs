//! Tries every schedule, the shortest first, until one sells more units than there are.

use std::collections::HashMap;

use crate::machine::{Action, Machine};

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The shortest schedule that oversells, if there is one.
    pub oversells: Option<Vec<Action>>,
    /// Different states that were looked at.
    pub states: usize,
    /// Whole schedules: ways through these states. Where a schedule can go round in a circle, and where the
    /// search ended early, this is `None`.
    pub schedules: Option<f64>,
}

/// Searches all schedules of a machine in which these faults may happen, until it has looked at `states_max` states.
#[must_use]
pub fn search(machine: &Machine<'_>, faults: &[String], states_max: usize) -> Search {
    let start = machine.start();
    let mut states = vec![start.clone()];
    let mut index_of = HashMap::from([(start, 0_usize)]);
    let mut before: Vec<Option<(usize, Action)>> = vec![None];
    let mut following: Vec<Vec<usize>> = Vec::new();
    let mut oversells = None;
    let mut is_cut = false;
    let mut at = 0;
    while at < states.len() {
        let state = states[at].clone();
        if machine.is_oversold(&state) {
            oversells = Some(at);
            break;
        }
        let mut next = Vec::new();
        for action in machine.actions(&state, faults) {
            let after = machine.after(&state, &action);
            let index = *index_of.entry(after.clone()).or_insert_with(|| {
                states.push(after);
                before.push(Some((at, action.clone())));
                states.len() - 1
            });
            next.push(index);
        }
        following.push(next);
        at += 1;
        if states.len() > states_max {
            is_cut = true;
            break;
        }
    }
    let path = |end: usize| {
        let mut actions = Vec::new();
        let mut at = end;
        while let Some((previous, action)) = &before[at] {
            actions.push(action.clone());
            at = *previous;
        }
        actions.reverse();
        actions
    };
    let is_whole = !is_cut && oversells.is_none();
    Search {
        oversells: oversells.map(path),
        states: states.len(),
        schedules: if is_whole { count(&following) } else { None },
    }
}

/// Counts the ways from the first state to an end; `None` when one of them goes round in a circle.
fn count(following: &[Vec<usize>]) -> Option<f64> {
    let mut ways: Vec<Option<f64>> = vec![None; following.len()];
    let mut is_open = vec![false; following.len()];
    let mut stack = vec![(0_usize, 0_usize)];
    while let Some((state, child)) = stack.pop() {
        is_open[state] = true;
        if let Some(&next) = following[state].get(child) {
            stack.push((state, child + 1));
            if ways[next].is_none() {
                if is_open[next] {
                    return None;
                }
                stack.push((next, 0));
            }
            continue;
        }
        let sum: f64 = following[state].iter().filter_map(|next| ways[*next]).sum();
        ways[state] = Some(if following[state].is_empty() { 1.0 } else { sum });
        is_open[state] = false;
    }
    ways.first().copied().flatten()
}
