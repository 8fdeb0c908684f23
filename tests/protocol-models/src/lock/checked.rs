//! The lock's model as Stateright walks through it: which actions are possible, and what must hold.

use stateright::{Model, Property};

use super::{
    Action, Lock, NO_STALE_WRITE, NO_WAKE_UP_LOST, NOBODY_STARVES, ONE_HOLDER, PROCESSES, Phase,
    Process, State, TIME_MAX,
};
use crate::check::is_end;

impl Model for Lock {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first_state()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::{Ask, AskUnanswered, BeginWrite, CutOff, Die, Release, Renew};
        // Those that are plainly impossible are left out, since trying one costs a copy of the state.
        let may_fail = state.faults < self.bound.faults;
        for (process, one) in (0..PROCESSES).zip(&state.processes) {
            match one.phase {
                Phase::Idle | Phase::Waits { .. } => {
                    actions.push(Ask(process));
                    actions.extend(may_fail.then_some(AskUnanswered(process)));
                }
                Phase::Holds { .. } => {
                    actions.extend([Release(process), BeginWrite(process), Renew(process)]);
                }
                Phase::Over => {}
            }
            if may_fail && one.phase != Phase::Over {
                actions.extend([CutOff(process), Die(process)]);
            }
        }
        actions.extend((0..state.grants_told.len()).map(Action::Receive));
        actions.extend((0..state.writes.len()).map(Action::WriteArrives));
        actions.extend((state.now < TIME_MAX).then_some(Action::Tick));
        if may_fail {
            actions.extend((0..state.grants_told.len()).map(Action::LoseMessage));
            actions.extend([true, false].map(|forgets| Action::Failover { forgets }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        if !state.step(self, action) {
            return None;
        }
        // Here and not in the checker, whose search for the shortest path knows no symmetry.
        Some(if self.bound.is_symmetric { state.representative() } else { state })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, state: &State| {
                state.forgot || state.live_holders() <= 1
            }),
            Property::always(NO_STALE_WRITE, |_, state: &State| !state.accepted_a_stale_one),
            Property::always(NO_WAKE_UP_LOST, |_, state: &State| !state.passed_a_waiter_by()),
            Property::always(NOBODY_STARVES, |model: &Self, state: &State| {
                state.live_hold().is_some() || state.all_over() || !is_end(model, state)
            }),
            Property::sometimes("two hold after a failover", |_, state: &State| {
                state.live_holders() > 1
            }),
            Property::sometimes("a stale write is refused", |_, state: &State| {
                let is_late = |(_, fence)| state.accepted.is_some_and(|(_, last)| fence < last);
                state.writes.iter().copied().any(is_late)
            }),
        ];
        if self.bound.clients.contains(&2) {
            properties.push(Property::sometimes(
                "a client hands over to the next one",
                |_, state: &State| {
                    let handed =
                        |one: &Process| matches!(one.phase, Phase::Holds { turn: (_, 1), .. });
                    state.processes.iter().any(handed)
                },
            ));
        }
        if !self.bound.clients.contains(&0) {
            properties.push(Property::sometimes(
                "two processes wait in the queue",
                |_, state: &State| state.primary.queue.len() == 2,
            ));
        }
        properties
    }
}
