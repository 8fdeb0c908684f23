//! Runs a program for two or three buyers, one step at a time, in the order of a schedule.

use std::fmt;

use crate::expression::{Assignment, Expression};
use crate::program::{ACCEPTED_FENCE, Program};

/// The circumstances of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Buyers, each of whom wants one unit.
    pub buyers: u8,
    /// Instances of the service; buyer 1 is at the first, buyer 2 at the second, and so on around.
    pub instances: u8,
    /// Units at the start.
    pub units: i64,
    /// Whether the arbiter writes the orders, with its condition, or the strategy's textbook form.
    pub arbiter: bool,
}

/// One thing that happens next: the scheduler's choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The buyer of this number, from 0, makes a step.
    Step(u8),
    /// The process of this buyer ends at once.
    Crash(u8),
    /// The event of this place in the program happens.
    Event(u8),
}

/// What a buyer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// At the step of this number.
    At(u8),
    /// The purchase has ended; with an order, if it has written one.
    Ended,
    /// The process has ended.
    Crashed,
}

/// Everything that may change in a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// The buyers' phases.
    pub phases: Vec<Phase>,
    /// Whether each buyer has an order.
    pub has_order: Vec<bool>,
    /// Orders that the arbiter has refused.
    pub refused_by_arbiter: u8,
    /// How often each event has happened.
    pub events: Vec<u8>,
    /// The values of the variables, by their place.
    pub values: Vec<i64>,
}

/// A program with its buyers. It has no state of its own.
#[derive(Debug)]
pub struct Machine<'a> {
    program: &'a Program,
    settings: Settings,
    names: Vec<&'a str>,
    /// For each name the place of its first value; its width is 1, the instances or the buyers.
    places: Vec<usize>,
    width: usize,
}

impl<'a> Machine<'a> {
    /// Puts the buyers in front of the first step of a program.
    #[must_use]
    pub fn new(program: &'a Program, settings: Settings) -> Self {
        let names = program.names();
        let mut places = Vec::new();
        let mut width = 0;
        for name in &names {
            places.push(width);
            width += match name {
                name if name.starts_with("my_") => usize::from(settings.buyers),
                name if name.ends_with('@') => usize::from(settings.instances),
                _ => 1,
            };
        }
        Self { program, settings, names, places, width }
    }

    /// The state before the first step.
    #[must_use]
    pub fn start(&self) -> State {
        let buyers = usize::from(self.settings.buyers);
        let mut state = State {
            phases: vec![Phase::At(0); buyers],
            has_order: vec![false; buyers],
            refused_by_arbiter: 0,
            events: vec![0; self.program.events.len()],
            values: vec![0; self.width],
        };
        // Each instance has values of its own.
        for buyer in 0..self.settings.buyers.max(self.settings.instances) {
            self.set(&mut state, "row", buyer, self.settings.units);
            self.assign(&mut state, &self.program.start, buyer);
        }
        state
    }

    /// Lists what may happen next. Faults are among it where `faults` has their names; `crash` is one.
    #[must_use]
    pub fn actions(&self, state: &State, faults: &[String]) -> Vec<Action> {
        let mut actions = Vec::new();
        let buyers = 0..self.settings.buyers;
        for buyer in buyers.clone() {
            if let Phase::At(step) = state.phases[usize::from(buyer)] {
                let when = &self.program.steps[usize::from(step)].when;
                if when.as_ref().is_none_or(|when| self.value(state, when, buyer) != 0) {
                    actions.push(Action::Step(buyer));
                }
            }
        }
        if self.is_over(state) {
            return actions;
        }
        for (index, event) in self.program.events.iter().enumerate() {
            let is_offered = !event.is_fault || faults.contains(&event.name);
            let is_left = state.events[index] < event.times_max;
            if is_offered && is_left && self.value(state, &event.when, 0) != 0 {
                actions.push(Action::Event(u8::try_from(index).unwrap_or(u8::MAX)));
            }
        }
        if self.program.crash.is_some() && faults.iter().any(|fault| fault == CRASH) {
            let has_crashed = state.phases.contains(&Phase::Crashed);
            let running = |buyer: &u8| matches!(state.phases[usize::from(*buyer)], Phase::At(step) if step > 0);
            actions.extend(buyers.filter(running).filter(|_| !has_crashed).map(Action::Crash));
        }
        actions
    }

    /// Does one of [`Machine::actions`], and returns the state after it.
    #[must_use]
    pub fn after(&self, state: &State, action: &Action) -> State {
        let mut next = state.clone();
        match action {
            Action::Step(buyer) => self.step(&mut next, *buyer),
            Action::Crash(buyer) => {
                next.phases[usize::from(*buyer)] = Phase::Crashed;
                self.assign(&mut next, self.program.crash.as_deref().unwrap_or_default(), *buyer);
            }
            Action::Event(index) => {
                let event = &self.program.events[usize::from(*index)];
                next.events[usize::from(*index)] += 1;
                self.assign(&mut next, &event.change, 0);
            }
        }
        next
    }

    /// Whether all purchases have ended.
    #[must_use]
    pub fn is_over(&self, state: &State) -> bool {
        !state.phases.iter().any(|phase| matches!(phase, Phase::At(_)))
    }

    /// Whether more units are sold than there were.
    #[must_use]
    pub fn is_oversold(&self, state: &State) -> bool {
        orders(state) > self.settings.units
    }

    /// The value of a variable, as a buyer sees it; 0 for a name that the program does not have.
    #[must_use]
    pub fn get(&self, state: &State, name: &str, buyer: u8) -> i64 {
        match name {
            "me" => i64::from(buyer) + 1,
            "units" => self.settings.units,
            _ => self.place(name, buyer).map_or(0, |place| state.values[place]),
        }
    }

    fn step(&self, state: &mut State, buyer: u8) {
        let index = usize::from(buyer);
        let Phase::At(at) = state.phases[index] else { return };
        let step = &self.program.steps[usize::from(at)];
        if !step.is_order {
            self.assign(state, &step.change, buyer);
        } else if self.settings.arbiter {
            self.order_by_arbiter(state, step.fence.as_ref(), buyer);
        } else {
            state.has_order[index] = true;
            self.assign(state, &step.change, buyer);
        }
        self.assign(state, &step.always, buyer);
        let condition = step.condition.as_ref();
        let jumps = condition.is_some_and(|condition| self.value(state, condition, buyer) != 0);
        let next = if jumps { step.then } else { step.next };
        state.phases[index] = match u8::try_from(next.unwrap_or(usize::from(at) + 1)) {
            Ok(next) if usize::from(next) < self.program.steps.len() => Phase::At(next),
            _ => Phase::Ended,
        };
    }

    /// The arbiter's transaction: the fence does not fall, and the stock suffices.
    fn order_by_arbiter(&self, state: &mut State, fence: Option<&Expression>, buyer: u8) {
        let fence = fence.map(|fence| self.value(state, fence, buyer));
        let is_late = fence.is_some_and(|fence| fence < self.get(state, ACCEPTED_FENCE, buyer));
        let row = self.get(state, "row", buyer);
        if is_late || row < 1 {
            state.refused_by_arbiter += 1;
            return;
        }
        if let Some(fence) = fence {
            self.set(state, ACCEPTED_FENCE, buyer, fence);
        }
        self.set(state, "row", buyer, row - 1);
        state.has_order[usize::from(buyer)] = true;
    }

    fn value(&self, state: &State, expression: &Expression, buyer: u8) -> i64 {
        expression.value(&|name: &str| self.get(state, name, buyer))
    }

    fn assign(&self, state: &mut State, assignments: &[Assignment], buyer: u8) {
        for assignment in assignments {
            let condition = assignment.condition.as_ref();
            if condition.is_none_or(|condition| self.value(state, condition, buyer) != 0) {
                let value = self.value(state, &assignment.value, buyer);
                self.set(state, &assignment.name, buyer, value);
            }
        }
    }

    fn set(&self, state: &mut State, name: &str, buyer: u8, value: i64) {
        if let Some(place) = self.place(name, buyer) {
            state.values[place] = value;
        }
    }

    fn place(&self, name: &str, buyer: u8) -> Option<usize> {
        let first = self.places[self.names.binary_search(&name).ok()?];
        let offset = match name {
            name if name.starts_with("my_") => buyer % self.settings.buyers,
            name if name.ends_with('@') => buyer % self.settings.instances,
            _ => 0,
        };
        Some(first + usize::from(offset))
    }
}

/// The fault that a process ends at once.
pub const CRASH: &str = "crash";

/// Orders that are written.
#[must_use]
pub fn orders(state: &State) -> i64 {
    i64::try_from(state.has_order.iter().filter(|has| **has).count()).unwrap_or(i64::MAX)
}

/// A state in one line, which the page's machine writes in the same way.
impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (phase, has_order) in self.phases.iter().zip(&self.has_order) {
            match phase {
                Phase::At(step) => write!(formatter, "{step}")?,
                Phase::Ended => formatter.write_str("e")?,
                Phase::Crashed => formatter.write_str("c")?,
            }
            formatter.write_str(if *has_order { "! " } else { " " })?;
        }
        write!(formatter, "r{} e{:?} v{:?}", self.refused_by_arbiter, self.events, self.values)
    }
}
