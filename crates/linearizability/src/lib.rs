#![doc = include_str!("../README.md")]
//!
//! The checker is that of the crate `todc-utils`: Wing and Gong's search with Lowe's memory of states
//! that were tried.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};

pub use todc_utils::specifications::Specification;

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
    pub fn done(&self, operation: T, called: impl Into<Instant>) {
        self.add(operation, called, Instant::now());
    }

    /// Adds an operation that happened between two moments.
    pub fn add(&self, operation: T, called: impl Into<Instant>, answered: impl Into<Instant>) {
        let (called, answered) = (called.into(), answered.into());
        self.operations().push(Recorded { operation, called, answered });
    }

    /// Number of operations that `which` applies to.
    pub fn count(&self, which: impl Fn(&T) -> bool) -> usize {
        let operations = self.operations();
        operations.iter().filter(|recorded| which(&recorded.operation)).count()
    }

    /// Whether the history is linearizable.
    #[must_use]
    pub fn is_linearizable<S>(&self) -> bool
    where
        S: Specification<Operation = T>,
    {
        let operations = self.operations().clone();
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

    fn operations(&self) -> MutexGuard<'_, Vec<Recorded<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
