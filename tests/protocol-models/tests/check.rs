//! The check of a model finds what a model must not have: a broken property, a missing example, a path without an end.

use protocol_models::check::{broken, every_state};
use stateright::{Model, Property};

/// Steps of the small model.
const LAST: u8 = 3;
const BELOW_LAST: &str = "below the last step";
const REACHED: &str = "the last step is reached";

/// Counts from 0 to a last step, and with `turns` begins again.
#[derive(Clone)]
struct Steps {
    last: u8,
    turns: bool,
    with_claim: bool,
}

const SOUND: Steps = Steps { last: LAST, turns: false, with_claim: false };

impl Model for Steps {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, state: &u8, actions: &mut Vec<u8>) {
        if *state < self.last {
            actions.push(state + 1);
        } else if self.turns {
            actions.push(0);
        }
    }

    fn next_state(&self, _: &u8, action: u8) -> Option<u8> {
        Some(action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let below: fn(&Self, &u8) -> bool = |_, state| *state < LAST;
        let reached: fn(&Self, &u8) -> bool = |_, state| *state == LAST;
        let claim = self.with_claim.then(|| Property::always(BELOW_LAST, below));
        claim.into_iter().chain([Property::sometimes(REACHED, reached)]).collect()
    }
}

#[test]
#[should_panic = "below the last step"]
fn a_broken_property_is_found() {
    every_state("steps", &Steps { with_claim: true, ..SOUND });
}

#[test]
#[should_panic = "the last step is reached"]
fn a_missing_example_is_found() {
    every_state("steps", &Steps { last: LAST - 1, ..SOUND });
}

#[test]
#[should_panic = "a path comes back"]
fn a_path_without_an_end_is_found() {
    every_state("steps", &Steps { turns: true, ..SOUND });
}

/// A mistake that breaks nothing is no proof that the model sees it.
#[test]
#[should_panic = "is not found"]
fn a_mistake_that_breaks_nothing_is_said() {
    broken("steps", Steps { last: LAST - 1, with_claim: true, ..SOUND }, BELOW_LAST);
}
