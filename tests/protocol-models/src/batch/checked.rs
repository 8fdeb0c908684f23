//! The batches' model as Stateright walks through it: which actions are possible, and what must hold.

use stateright::{Model, Property};

use super::{
    ACKNOWLEDGED_EXISTS, ALL_ANSWERED, Action, Answer, Batch, FAULTS, INSTANCES, Kind, LINES,
    NO_DEADLOCK, NO_GOOD_ORDER_LOST, ONCE, Place, REFUSED_IS_NOT_THERE, STOCK_HOLDS, State, Step,
    Transaction, WAITS_ALONE, WHOLE, lines_of,
};
use crate::check::is_end;

impl Model for Batch {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first_state()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        use Action::{Advance, Commit, Decide, Enter, LoseAnswer, Overtake, Recover};
        // Those that are plainly impossible are left out, since trying one costs a copy of the state.
        let [may_lose, may_end] = state.faults.map(|faults| faults < FAULTS);
        for instance in 0..INSTANCES {
            if state.may_enter_rows(instance) {
                actions.extend((1..=3).map(|size| Action::Cut(instance, size)));
            }
            actions.extend([0, 1].map(|item| Action::CutOwn(instance, item)));
        }
        for (line, place) in state.places.iter().enumerate() {
            match place {
                Place::Single | Place::Shared => actions.push(Action::WriteSingly(line)),
                Place::Own if may_end => actions.push(Action::TimeOver(line)),
                _ => {}
            }
        }
        for (one, transaction) in state.transactions.iter().enumerate() {
            match transaction.step {
                Step::Enters => actions.push(Enter(one)),
                Step::Locks(_) => actions.extend([Advance(one), Overtake(one)]),
                Step::Commits => {
                    actions.push(Commit(one));
                    actions.extend(may_lose.then_some(LoseAnswer(one)));
                }
                Step::Unanswered => {
                    actions.extend([Decide(one, true), Decide(one, false), Recover(one)]);
                }
                Step::Decided => actions.push(Recover(one)),
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let is_possible = state.step(self.mistake, action);
        state.transactions.sort_unstable();
        is_possible.then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(STOCK_HOLDS, |_, state: &State| state.stock_holds()),
            Property::always(ACKNOWLEDGED_EXISTS, |_, state: &State| {
                state.answered(|answer| answer == Answer::Sold).all(|line| state.rows[line] > 0)
            }),
            Property::always(REFUSED_IS_NOT_THERE, |_, state: &State| {
                state.answered(|answer| answer != Answer::Sold).all(|line| state.rows[line] == 0)
            }),
            Property::always(WHOLE, |_, state: &State| state.are_whole()),
            Property::always(ONCE, |_, state: &State| state.each_once()),
            Property::always(NO_DEADLOCK, |model: &Self, state: &State| {
                !state.has_deadlock(model.mistake)
            }),
            Property::always(WAITS_ALONE, |model: &Self, state: &State| {
                let waits = |one: &usize| state.waits_for(model.mistake, *one).is_some();
                let all = 0..state.transactions.len();
                all.filter(waits).all(|one| !state.has_stock_in_hand(model.mistake, one))
            }),
            Property::always(ALL_ANSWERED, |model: &Self, state: &State| {
                state.places.iter().all(|place| matches!(place, Place::Answered(_)))
                    || !is_end(model, state)
            }),
            Property::always(NO_GOOD_ORDER_LOST, |_, state: &State| state.refuses_for_a_reason()),
            Property::sometimes("a batch is overtaken", |_, state: &State| {
                state.transactions.iter().any(|one| one.is_overtaken)
            }),
            Property::sometimes("a lost COMMIT was carried out", |_, state: &State| {
                let decided =
                    |one: &Transaction| one.step == Step::Decided && state.rows[one.lines[0]] > 0;
                state.transactions.iter().any(decided)
            }),
            Property::sometimes("an order of several lines is sold", |_, state: &State| {
                (0..LINES.len()).any(|line| lines_of(line).count() > 1 && state.rows[line] > 0)
            }),
            Property::sometimes(
                "three batches of one instance are under way",
                |_, state: &State| {
                    state
                        .transactions
                        .iter()
                        .filter(|one| one.instance == 0 && one.kind == Kind::Shared)
                        .count()
                        > 2
                },
            ),
        ]
    }
}
