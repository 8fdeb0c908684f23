//! The tasks that write batches, and the runtime that they run on.
//!
//! A batch has half a dozen round trips to the ledger. On a runtime that also serves connections, each
//! answer of the ledger waits until the runtime has gone once through all tasks that are ready; and the
//! more buyers wait, the more of them there are. So batches have a runtime that serves nobody.

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Starts the tasks that write batches. Clones share the tracker.
#[derive(Clone, Debug)]
pub struct BatchTasks {
    tracker: TaskTracker,
    /// `None`: the runtime of whoever starts a task.
    runtime: Option<Handle>,
}

impl BatchTasks {
    /// Tasks on `runtime`, tracked by `tracker`.
    #[must_use]
    pub fn on(runtime: Option<Handle>, tracker: TaskTracker) -> Self {
        Self { tracker, runtime }
    }

    /// Starts a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => self.tracker.spawn_on(task, runtime),
            None => self.tracker.spawn(task),
        };
    }
}

impl From<TaskTracker> for BatchTasks {
    fn from(tracker: TaskTracker) -> Self {
        Self::on(None, tracker)
    }
}
