//! Linearizability: whether the operations of a history have an order in which each of them happens at
//! one moment between its call and its answer, and in which a specification holds.
//!
//! The checker is that of the crate `todc-utils`: Wing and Gong's search with Lowe's memory.

use std::sync::{Arc, Mutex};

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;
use tokio::time::Instant;

/// Operations with the times of their calls and answers. Clones share them.
#[derive(Clone, Debug)]
pub struct Recorder<T>(Arc<Mutex<Vec<Recorded<T>>>>);

/// An operation and its times.
#[derive(Clone, Debug)]
struct Recorded<T> {
    operation: T,
    called: Instant,
    answered: Instant,
}

impl<T> Default for Recorder<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Recorder<T> {
    /// Adds an operation that was called at this moment and is answered now.
    pub fn done(&self, operation: T, called: Instant) {
        self.add(operation, called, Instant::now());
    }

    /// Adds an operation that happened between two moments.
    pub fn add(&self, operation: T, called: Instant, answered: Instant) {
        self.0.lock().expect("no panic").push(Recorded { operation, called, answered });
    }

    /// Number of operations that `which` applies to.
    pub fn count(&self, which: impl Fn(&T) -> bool) -> usize {
        let operations = self.0.lock().expect("no panic");
        operations.iter().filter(|recorded| which(&recorded.operation)).count()
    }

    /// Whether the history is linearizable.
    pub fn is_linearizable<S>(&self) -> bool
    where
        S: Specification<Operation = T>,
    {
        let operations = self.0.lock().expect("no panic").clone();
        // At one moment calls come before answers: the two may have overlapped.
        let mut events = Vec::with_capacity(operations.len() * 2);
        for (process, recorded) in operations.into_iter().enumerate() {
            let Recorded { operation, called, answered } = recorded;
            events.push(((called, false), process, Action::Call(operation.clone())));
            events.push(((answered, true), process, Action::Response(operation)));
        }
        events.sort_by_key(|(at, process, _)| (*at, *process));
        let actions = events.into_iter().map(|(_, process, action)| (process, action));
        WGLChecker::<S>::is_linearizable(History::from_actions(actions.collect()))
    }
}
