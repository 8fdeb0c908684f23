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
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let end = end.clone();
            std::thread::Builder::new()
                .name(format!("connections-{number}"))
                .spawn(move || runtime.block_on(end.cancelled()))?;
        }
        let next = Arc::new(AtomicUsize::new(0));
        Ok((count > 0).then(|| Self { handles: handles.into(), next }))
    }

    /// The runtime of the next connection.
    #[must_use]
    pub fn next(&self) -> &Handle {
        &self.handles[self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()]
    }
}
