//! The threads that callers run on. Each has a runtime of its own, and a caller stays on its thread.
//!
//! Such a runtime runs its tasks in the order in which they become ready. A thread of tokio's shared runtime keeps only 256
//! ready tasks in order. The others wait until it has hardly anything else to do: of thousands of answers that arrive
//! together, some would be read seconds later, and the report would show that as the service's latency.

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

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The thread of a caller, by its number.
    pub fn of(&self, caller: usize) -> &Handle {
        &self.0[caller % self.0.len()].runtime
    }
}

impl CallerThread {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the system gives a runtime its file descriptors");
        let (handle, (running, ended)) = (runtime.handle().clone(), oneshot::channel());
        thread::spawn(move || runtime.block_on(ended));
        Self { runtime: handle, _running: running }
    }
}
