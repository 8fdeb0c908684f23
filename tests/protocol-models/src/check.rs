//! The check of a model: every reachable state, the properties, and that every path ends.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Checks every reachable state of a model; returns how many there are.
///
/// # Panics
/// When a property is broken, with the shortest path; when an example is missing; when a path has no
/// end. A property about the ends of paths says nothing about a path that has none.
pub fn every_state<M>(name: &str, model: &M) -> usize
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let begin = Instant::now();
    let checker = model.clone().checker().spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert_every_path_ends(model);
    println!(
        "model {name}: {states} states, at most {} actions deep, {:.1} s",
        checker.max_depth(),
        begin.elapsed().as_secs_f64()
    );
    states
}

/// Finds the shortest path to a broken property of a model with a planted mistake, and prints it.
///
/// # Panics
/// When the property holds in every state, so that the model does not see the mistake.
pub fn broken<M>(name: &str, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let begin = Instant::now();
    assert_eq!(model.property(property).expectation, Expectation::Always, "{property}");
    let until = HasDiscoveries::AllOf([property].into());
    let checker = model.checker().finish_when(until).spawn_bfs().join();
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(property) else {
        panic!("the planted mistake {name} is not found in {states} states");
    };
    let actions = path.into_actions();
    println!(
        "mistake {name}: \"{property}\" broken by {} actions, found after {states} states, {:.1} s",
        actions.len(),
        begin.elapsed().as_secs_f64()
    );
    for action in actions {
        println!("    {action:?}");
    }
}

/// Whether no action is possible in this state.
pub fn is_end<M: Model>(model: &M, state: &M::State) -> bool {
    let mut actions = Vec::new();
    model.actions(state, &mut actions);
    actions.into_iter().all(|action| model.next_state(state, action).is_none())
}

/// Walks all paths; a path that comes back to one of its own states would never end.
fn assert_every_path_ends<M>(model: &M)
where
    M: Model,
    M::State: Clone + Debug + Eq + Hash,
{
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    // By the hash of a state, as Stateright keeps them, since millions of whole states take long to
    // compare: whether it is on the path that is being walked, or all paths from it are known to end.
    let mut on_path: HashMap<u64, bool> = HashMap::new();
    for first in model.init_states() {
        let hash = hasher.hash_one(&first);
        on_path.insert(hash, true);
        let mut path = vec![(hash, model.next_states(&first))];
        while let Some((_, next)) = path.last_mut() {
            let Some(state) = next.pop() else {
                if let Some((ended, _)) = path.pop() {
                    on_path.insert(ended, false);
                }
                continue;
            };
            let hash = hasher.hash_one(&state);
            match on_path.get(&hash) {
                Some(true) => panic!("a path comes back to {state:#?}"),
                Some(false) => {}
                None => {
                    on_path.insert(hash, true);
                    path.push((hash, model.next_states(&state)));
                }
            }
        }
    }
}
