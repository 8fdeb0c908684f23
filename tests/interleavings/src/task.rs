//! Tasks, by shuttle.

use std::time::Duration;

use futures::FutureExt;

pub use shuttle::future::{AbortHandle, JoinHandle, spawn, yield_now};

use crate::random::{below, once_in};
use crate::runtime::Handle;

/// Lets shuttle switch to another task. To be called before whatever another task may see.
pub(crate) fn switch() {
    if shuttle::current::try_get_current_task().is_some() && !std::thread::panicking() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Waits for something, or leaves after a few steps: in one of this number of cases.
pub(crate) async fn wait_or_leave<T>(
    mut awaited: impl Future<Output = T> + Unpin,
    cases: u32,
) -> Option<T> {
    if !once_in(cases) {
        return Some(awaited.await);
    }
    for _ in 0..below(24) {
        if let Some(come) = (&mut awaited).now_or_never() {
            return Some(come);
        }
        yield_now().await;
    }
    None
}

/// A tracker of tasks, by tokio.
#[derive(Clone, Debug, Default)]
pub struct TaskTracker(real_tokio_util::task::TaskTracker);

impl TaskTracker {
    /// A tracker without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        spawn(self.0.track_future(task))
    }

    /// Starts a task on a runtime.
    pub fn spawn_on<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
        runtime: &Handle,
    ) -> JoinHandle<T> {
        runtime.spawn(self.0.track_future(task))
    }

    /// Lets [`TaskTracker::wait`] end.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits for the end of all tasks.
    pub async fn wait(&self) {
        self.0.wait().await;
    }
}
