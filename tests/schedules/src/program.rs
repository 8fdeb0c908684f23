//! A strategy as data: the steps of one purchase, and the faults that may happen to it.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::expression::{Assignment, Expression};
use crate::machine::CRASH;

/// The program of a strategy: each buyer runs it once, for one unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Values at the start; every other variable begins with 0.
    #[serde(default)]
    pub start: Vec<Assignment>,
    /// The steps, from the first.
    pub steps: Vec<Step>,
    /// What else may happen, beside the steps of the buyers.
    #[serde(default)]
    pub events: Vec<Event>,
    /// What the other servers do when the process of a buyer ends at once; `None` where no crash is offered.
    pub crash: Option<Vec<Assignment>>,
    /// The faults with which the strategy oversells although it is safe without them, the arbiter being off.
    #[serde(default)]
    pub broken_by: Vec<String>,
}

/// One step of a purchase: nobody else does anything meanwhile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The command, in the words of the articles.
    pub text: String,
    /// The buyer waits until this is true.
    pub when: Option<Expression>,
    /// What the step changes.
    #[serde(default, rename = "do")]
    pub change: Vec<Assignment>,
    /// Whether the step writes the order.
    #[serde(default, rename = "order")]
    pub is_order: bool,
    /// The fence that the arbiter compares when it writes the order.
    pub fence: Option<Expression>,
    /// What the step changes also when the arbiter has refused the order.
    #[serde(default)]
    pub always: Vec<Assignment>,
    /// Whether the step `then` comes next, after the change.
    #[serde(rename = "if")]
    pub condition: Option<Expression>,
    /// The next step where the condition is true.
    pub then: Option<usize>,
    /// The next step otherwise; `None`: the following one.
    pub next: Option<usize>,
    /// The place in the strategy's code that comes right after this step, for a replay.
    pub point: Option<String>,
}

/// Something that happens beside the steps of the buyers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Its name in a schedule.
    pub name: String,
    /// Whether it is a fault. Other events, like the tick of a clock, happen at any time.
    #[serde(default, rename = "fault")]
    pub is_fault: bool,
    /// The event can happen only while this is true.
    pub when: Expression,
    /// What it changes.
    #[serde(rename = "do")]
    pub change: Vec<Assignment>,
    /// How often it may happen in one schedule.
    #[serde(default = "once")]
    pub times_max: u8,
}

fn once() -> u8 {
    1
}

/// Error: a text that is no program.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ProgramError(String);

/// The name of the step behind the last one: the purchase has ended.
const END: &str = "end";

/// The program of a strategy, from the file beside its code. The shared steps and events are where the program
/// uses them, and the numbers of steps where it names places. This is the form that the page reads.
///
/// # Errors
/// A sentence when a file is missing or no JSON, or names something that does not exist.
pub fn expanded(name: &str) -> Result<Value, ProgramError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/gates/src");
    let read = |name: &str| -> Result<Value, ProgramError> {
        let file = folder.join(name).with_extension("json");
        let wrong = |error: &dyn fmt::Display| ProgramError(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(&file).map_err(|error| wrong(&error))?;
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    };
    let mut program = read(&name.replace('-', "_"))?;
    let shared = read("kit/shared_programs")?;
    for part in ["steps", "events"] {
        let Some(list) = program.get_mut(part).and_then(Value::as_array_mut) else { continue };
        let mut whole = Vec::new();
        for entry in std::mem::take(list) {
            match entry.get("use").and_then(Value::as_str) {
                None => whole.push(entry),
                Some(name) => match &shared[part][name] {
                    Value::Array(several) => whole.extend(several.iter().cloned()),
                    Value::Null => return Err(ProgramError(format!("nothing shared is {name:?}"))),
                    one => whole.push(one.clone()),
                },
            }
        }
        *list = whole;
    }
    let Some(steps) = program.get_mut("steps").and_then(Value::as_array_mut) else {
        return Err(ProgramError("there are no steps".to_owned()));
    };
    let places: Vec<Option<Value>> =
        steps.iter_mut().map(|step| step.as_object_mut()?.remove("at")).collect();
    let count = steps.len();
    for step in steps {
        for jump in ["then", "next"] {
            let Some(target) = step.get_mut(jump) else { continue };
            let found = if target.as_str() == Some(END) {
                Some(count)
            } else {
                places.iter().position(|place| place.as_ref() == Some(target))
            };
            *target = found
                .map(Value::from)
                .ok_or_else(|| ProgramError(format!("no step is at {target}")))?;
        }
    }
    Ok(program)
}

impl Program {
    /// Reads the program of a strategy.
    ///
    /// # Errors
    /// A sentence when a file is missing or no program, or names something that does not exist.
    pub fn of(name: &str) -> Result<Self, ProgramError> {
        let wrong = |error: &dyn fmt::Display| ProgramError(format!("{name}: {error}"));
        let expanded = expanded(name).map_err(|error| wrong(&error))?;
        let program: Self = serde_json::from_value(expanded).map_err(|error| wrong(&error))?;
        let mut steps = program.steps.iter();
        match steps.find(|step| step.condition.is_some() != step.then.is_some()) {
            Some(Step { text, .. }) => {
                Err(wrong(&format_args!("{text:?}: `if` and `then` belong together")))
            }
            None => Ok(program),
        }
    }

    /// Lists the faults that may happen to a purchase.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let faults = self.events.iter().filter(|event| event.is_fault);
        let crash = self.crash.is_some().then(|| CRASH.to_owned());
        faults.map(|event| event.name.clone()).chain(crash).collect()
    }

    /// Lists the variables, in the order of their names: those of all, of an instance, and of a buyer.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec!["row"];
        let changes = self.start.iter().chain(self.crash.iter().flatten());
        let changes = changes.chain(self.steps.iter().flat_map(|step| &step.change));
        let changes = changes.chain(self.steps.iter().flat_map(|step| &step.always));
        let changes = changes.chain(self.events.iter().flat_map(|event| &event.change));
        changes.for_each(|change| change.names(&mut names));
        for step in &self.steps {
            let conditions = step.when.iter().chain(&step.fence).chain(&step.condition);
            conditions.for_each(|condition| condition.names(&mut names));
            if step.fence.is_some() {
                names.push(ACCEPTED_FENCE);
            }
        }
        self.events.iter().for_each(|event| event.when.names(&mut names));
        names.retain(|name| !["me", "units"].contains(name));
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The highest fence that the arbiter has accepted.
pub(crate) const ACCEPTED_FENCE: &str = "accepted_fence";
