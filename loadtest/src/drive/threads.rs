//! The threads that callers run on. Each has a runtime of its own, and a caller stays on its thread.
//!
//! Such a runtime runs its tasks in the order in which they become ready, also when thousands of answers arrive together.
//! Tokio's runtime for several threads does not, and the report would show that as the service's latency.

use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::process;

/// The threads of one drive; they end when this is dropped.
pub struct CallerThreads(Vec<CallerThread>);

struct CallerThread {
    runtime: Handle,
    /// Dropping it ends the thread.
    _running: oneshot::Sender<()>,
}

impl CallerThreads {
    /// Starts [`process::generator_threads`].
    ///
    /// # Panics
    /// When the system starts no further thread.
    pub fn start() -> Self {
        Self((0..process::generator_threads()).map(|_| CallerThread::start()).collect())
    }

    /// The runtimes of the threads.
    pub fn runtimes(&self) -> impl Iterator<Item = &Handle> {
        self.0.iter().map(|thread| &thread.runtime)
    }

    /// The runtime of a caller, by its number.
    pub fn of(&self, caller: usize) -> &Handle {
        &of_caller(&self.0, caller).runtime
    }
}

/// Finds what belongs to a caller in a list with one entry for each thread.
pub fn of_caller<T>(by_thread: &[T], caller: usize) -> &T {
    &by_thread[caller % by_thread.len()]
}

impl CallerThread {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system gives a runtime its file descriptors");
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::spawn(move || runtime.block_on(ended));
        Self { runtime: handle, _running: running }
    }
}
