//! Runtimes for connections: each is one thread, and a connection stays on its thread.
//!
//! The shared runtime moves tasks between threads when one has nothing to do. A connection whose
//! thread never changes finds its data in that processor's cache, and its wake-ups lock nothing.
//! Workers, and everything else that has no connection, stay on the shared runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Events of sockets that a runtime takes from the kernel at a time. It takes some after each 61 tasks, and when no task is
/// ready. The others wait in the kernel in the same order. With tokio's 1,024, the tasks of requests that were read
/// before would wait behind all requests of a crowd.
const EVENTS_EACH_LOOK: usize = 32;

/// The runtimes; connections are dealt out in turn. Clones share them.
#[derive(Clone, Debug)]
pub struct Runtimes {
    handles: Arc<[Handle]>,
    next: Arc<AtomicUsize>,
}

impl Runtimes {
    /// Starts `count` threads with a runtime each, which end when `end` fires; `None` for 0.
    ///
    /// # Errors
    /// When the system starts no further thread.
    pub fn start(count: usize, end: &CancellationToken) -> io::Result<Option<Self>> {
        let mut handles = Vec::with_capacity(count);
        for number in 0..count {
            handles.push(start_thread(format!("connections-{number}"), end)?);
        }
        let next = Arc::new(AtomicUsize::new(0));
        Ok((count > 0).then(|| Self { handles: handles.into(), next }))
    }

    /// Starts a thread with a runtime for batches of orders, beside those of the connections: none if
    /// there are none.
    ///
    /// # Errors
    /// When the system starts no further thread.
    pub fn start_batches(count: usize, end: &CancellationToken) -> io::Result<Option<Handle>> {
        (count > 0).then(|| start_thread("batches".to_owned(), end)).transpose()
    }

    /// All runtimes.
    #[must_use]
    pub fn all(&self) -> &[Handle] {
        &self.handles
    }

    /// The runtime of the next connection.
    #[must_use]
    pub fn next(&self) -> &Handle {
        &self.handles[self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()]
    }
}

/// Starts a thread with a runtime, which ends when `end` fires.
fn start_thread(name: String, end: &CancellationToken) -> io::Result<Handle> {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().max_io_events_per_tick(EVENTS_EACH_LOOK).build()?;
    let handle = runtime.handle().clone();
    let end = end.clone();
    std::thread::Builder::new().name(name).spawn(move || runtime.block_on(end.cancelled()))?;
    Ok(handle)
}
