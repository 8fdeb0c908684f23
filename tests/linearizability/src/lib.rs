//! For tests of several clients at once: a `Recorder` notes each operation with the times of its call and of its answer,
//! and then checks whether the history is *linearizable*. It is, if the operations have an order in which each of them
//! happens at one moment between its call and its answer, and in which a specification holds.
//!
//! ```rust
//! use std::time::Instant;
//!
//! use linearizability::{Recorder, Specification};
//!
//! /// A flag that one caller may set once.
//! struct Flag;
//!
//! impl Specification for Flag {
//!     type State = bool;
//!     type Operation = &'static str;
//!
//!     fn init() -> bool {
//!         false
//!     }
//!
//!     fn apply(operation: &&'static str, is_set: &bool) -> (bool, bool) {
//!         match *operation {
//!             "set" => (!is_set, true),
//!             _refused => (*is_set, *is_set),
//!         }
//!     }
//! }
//!
//! let history = Recorder::default();
//! let called = Instant::now();
//! history.done("set", called);
//! history.done("refused", called);
//! assert!(history.is_linearizable::<Flag>());
//!
//! history.done("set", Instant::now()); // a second caller was told that it has set the flag
//! assert!(!history.is_linearizable::<Flag>());
//! ```
//!
//! The locks of `leaselock` and the stock of the service are tested with it.
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
pub struct Recorder<T>(Arc<Mutex<Vec<TimedOperation<T>>>>);

/// An operation and its times.
#[derive(Clone, Debug)]
struct TimedOperation<T> {
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
        let called = called.into();
        let answered = answered.into();
        self.operations().push(TimedOperation { operation, called, answered });
    }

    /// Number of operations that `which` applies to.
    pub fn count(&self, which: impl Fn(&T) -> bool) -> usize {
        let operations = self.operations();
        operations.iter().filter(|recorded| which(&recorded.operation)).count()
    }

    fn operations(&self) -> MutexGuard<'_, Vec<TimedOperation<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            let TimedOperation { operation, called, answered } = recorded;
            events.push(((called, false), process, Action::Call(operation.clone())));
            events.push(((answered, true), process, Action::Response(operation)));
        }
        events.sort_by_key(|(at, process, _)| (*at, *process));
        let actions = events.into_iter().map(|(_, process, action)| (process, action));
        WGLChecker::<S>::is_linearizable(History::from_actions(actions.collect()))
    }
}
