//! Runtimes for connections: each is one thread, and a connection stays on its thread.
//!
//! The shared runtime moves tasks between threads when one has nothing to do. A connection whose
//! thread never changes finds its data in that processor's cache, and its wake-ups lock nothing.
//! Workers, and everything else that has no connection, stay on the shared runtime.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;

/// Events of sockets that a runtime takes from the kernel at a time. It takes some after each 61 tasks, and when no
/// task is ready. The others wait in the kernel in the same order. With tokio's 1,024, the tasks of requests that were
/// read before would wait behind all requests of a crowd.
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
    pub fn all(&self) -> &[Handle] {
        &self.handles
    }

    /// The runtime of the next connection.
    pub fn next(&self) -> &Handle {
        &self.handles[self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()]
    }
}

/// Makes the runtime of a program, for all that has no runtime of its own.
///
/// # Errors
/// When the system starts no further thread.
pub fn shared() -> io::Result<Runtime> {
    build(Builder::new_multi_thread())
}

fn build(mut builder: Builder) -> io::Result<Runtime> {
    builder.enable_all().max_io_events_per_tick(EVENTS_EACH_LOOK).build()
}

/// Starts a thread with a runtime, which ends when `end` fires.
fn start_thread(name: String, end: &CancellationToken) -> io::Result<Handle> {
    let runtime = build(Builder::new_current_thread())?;
    let handle = runtime.handle().clone();
    let end = end.clone();
    std::thread::Builder::new().name(name).spawn(move || runtime.block_on(end.cancelled()))?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::task::yield_now;

    use super::*;

    const CROWD: usize = 200;
    /// A runtime looks for events after each 61 tasks.
    const BEFORE_A_LOOK: usize = 61;

    /// Reads the requests of a crowd that come at once. Returns how many tasks of the crowd ran at most before another
    /// task that was ready.
    async fn most_before_another() -> usize {
        let read = Arc::new(AtomicUsize::new(0));
        let mut clients = Vec::new();
        for _ in 0..CROWD {
            let (client, server) = UnixStream::pair().expect("two sockets");
            server.set_nonblocking(true).expect("it is a socket");
            let server = tokio::net::UnixStream::from_std(server).expect("it is registered");
            let read = Arc::clone(&read);
            tokio::spawn(async move {
                server.readable().await.expect("it is open");
                read.fetch_add(1, Ordering::Relaxed);
            });
            clients.push(client);
        }
        // All wait.
        yield_now().await;
        clients.iter().for_each(|mut client| client.write_all(b"1").expect("it is open"));
        let mut most = 0;
        let mut before = 0;
        while before < CROWD {
            yield_now().await;
            let now = read.load(Ordering::Relaxed);
            most = most.max(now - before);
            before = now;
        }
        most
    }

    /// Otherwise the tasks of requests that were read before would wait behind all requests of a crowd.
    #[tokio::test]
    async fn a_runtime_takes_few_events_at_a_look() {
        let end = CancellationToken::new();
        let runtimes = Runtimes::start(1, &end).expect("a thread").expect("one");
        let most = runtimes.next().spawn(most_before_another()).await.expect("it does not panic");
        end.cancel();
        assert!(most <= BEFORE_A_LOOK, "{most} ran before another task");
    }
}
