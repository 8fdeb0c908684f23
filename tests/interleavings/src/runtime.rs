//! The runtimes of a run: there is one for all tasks but those of some buyers, and each run has others.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::below;
use crate::task::{JoinHandle, spawn};

/// Runs of all threads.
static RUNS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// Names a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u64, u32);

/// A runtime.
#[derive(Clone, Debug)]
pub struct Handle(Id);

/// There is no runtime here.
#[derive(Clone, Copy, Debug)]
pub struct NoRuntime;

impl Handle {
    /// The present runtime.
    #[must_use]
    pub fn current() -> Self {
        Self(Id(RUN.get(), 0))
    }

    /// The present runtime or another one.
    pub(crate) fn any() -> Self {
        Self(Id(RUN.get(), below(2)))
    }

    /// The present runtime.
    ///
    /// # Errors
    /// When no run is under way.
    pub fn try_current() -> Result<Self, NoRuntime> {
        shuttle::current::try_get_current_task().map(|_| Self::current()).ok_or(NoRuntime)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> Id {
        self.0
    }

    /// Starts a task.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        spawn(task)
    }
}

/// Begins a run.
pub(crate) fn begin_run() {
    RUN.set(RUNS.fetch_add(1, Ordering::Relaxed));
}
