//! Runs of the real code as paths of a model.
//!
//! The code says what it decides by events of `tracing`, at the level `TRACE` and under a [target](LOCK_TARGET) of its
//! own. A [`Recorder`] keeps them in their order; a model replays them by its own steps, and says at which event
//! no step fits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// The target of the events of a lock.
pub const LOCK_TARGET: &str = "leaselock::protocol";
/// The target of the events of batches.
pub const BATCH_TARGET: &str = "ledger::protocol";
/// States that fit a trace so far; with more, the events say too little.
const PATHS_MAX: usize = 20_000;

/// What the code said, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Microseconds since 1970.
    pub at_us: u64,
    /// The values by their names. The value `what` names the decision.
    pub fields: BTreeMap<String, String>,
}

impl Event {
    /// What was decided.
    #[must_use]
    pub fn what(&self) -> &str {
        self.text("what")
    }

    /// A value; empty where it is missing.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// A value that is a number; 0 where it is missing.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A value that is `true` or `false`; nothing where it is something else.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).parse().ok()
    }
}

/// A run that is a path of the model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Explained {
    /// Events, all explained.
    pub events: usize,
    /// The most states that fitted at once.
    pub states_max: usize,
}

/// The first event that no step of the model fits.
#[derive(Clone, Debug)]
pub struct Unexplained {
    /// Its number, from 1 on.
    pub number: usize,
    pub event: Event,
    /// The events before it, and a state that fits them.
    pub before: String,
}

impl fmt::Display for Unexplained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, event, before } = self;
        write!(formatter, "no step of the model fits event {number}, {event:?}; before:\n{before}")
    }
}

/// How a model replays a run.
pub(crate) trait Replay {
    /// A state that fits the events so far, with the commands that are not answered.
    type Path: Clone + Eq + std::hash::Hash + fmt::Debug;

    /// All paths that go on with this event.
    fn next(&mut self, path: &Self::Path, event: &Event) -> Vec<Self::Path>;
}

/// Replays events from one path.
pub(crate) fn replay<R: Replay>(
    mut rules: R,
    first: R::Path,
    events: &[Event],
) -> Result<Explained, Box<Unexplained>> {
    /// Events before an unexplained one that are shown.
    const SHOWN: usize = 12;
    let mut paths = vec![first];
    let mut explained = Explained::default();
    for event in events {
        let mut next: Vec<R::Path> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for path in &paths {
            next.extend(rules.next(path, event).into_iter().filter(|one| seen.insert(one.clone())));
        }
        let number = explained.events + 1;
        if next.is_empty() || next.len() > PATHS_MAX {
            let shown = &events[explained.events.saturating_sub(SHOWN)..explained.events];
            let events: String = shown.iter().map(|one| format!("  {one:?}\n")).collect();
            let before = format!("{events}{} states, such as {:#?}", paths.len(), paths[0]);
            return Err(Box::new(Unexplained { number, event: event.clone(), before }));
        }
        explained.events = number;
        explained.states_max = explained.states_max.max(next.len());
        paths = next;
    }
    Ok(explained)
}

/// Keeps the events of protocols, in the order in which they came. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    events: Arc<Mutex<Vec<(&'static str, Event)>>>,
}

impl Recorder {
    /// The events of a target so far.
    #[must_use]
    pub fn events(&self, target: &str) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter(|(of, _)| *of == target).map(|(_, event)| event.clone()).collect()
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        [LOCK_TARGET, BATCH_TARGET].contains(&metadata.target())
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = Event::default();
        event.record(&mut said);
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        // In here, so that the times are in the order of the events.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        said.at_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        events.push((event.metadata().target(), said));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Event {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
