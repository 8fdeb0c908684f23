//! Sends answers piece by piece: the next piece goes out when the client has taken the one before.
//!
//! HTTP/2 has windows of its own on each stream, so a client that does not open them leaves the connection
//! writable, and the time limit of writes does not see it. Here the bytes themselves tell when they are
//! written, and a stream whose piece is not taken in time is reset. The others of its connection go on.
//!
//! The bytes of large answers that wait for their clients are bounded: for a connection, an address and the process. An
//! answer of up to one piece ([`PIECE_BYTES`]) takes nothing from a budget: the number of streams and of connections
//! bounds those.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use shop_metrics::Metrics;

tokio::task_local! {
    /// The flight of the HTTP/2 stream that this task serves.
    static FLIGHT: Arc<Flight>;
}

/// The piece of an answer that is under way.
#[derive(Debug, Default)]
pub struct Flight {
    since: Mutex<Option<Instant>>,
    landed: AtomicWaker,
}

impl Flight {
    /// The flight of the HTTP/2 stream that this task serves; `None` in HTTP/1.1.
    pub fn of_task() -> Option<Arc<Self>> {
        FLIGHT.try_with(Arc::clone).ok()
    }

    fn since(&self) -> Option<Instant> {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Ready while no piece is under way.
    fn poll_free(&self, context: &Context<'_>) -> Poll<()> {
        self.landed.register(context.waker());
        if self.since().is_none() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Ends when a piece has been under way for `limit`, at the latest after twice that time.
    async fn stalled(&self, limit: Duration) {
        loop {
            tokio::time::sleep_until(self.since().unwrap_or_else(Instant::now) + limit).await;
            if self.since().is_some_and(|since| since.elapsed() >= limit) {
                return;
            }
        }
    }
}

/// The bytes of a piece. They are dropped when they are written, or when nobody will write them.
struct Piece {
    bytes: Bytes,
    flight: Arc<Flight>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.flight.set(None);
        self.flight.landed.wake();
    }
}

/// Runs the streams of HTTP/2, and ends those whose client takes nothing for too long. The end of its task
/// resets a stream.
#[derive(Clone)]
pub struct StreamExecutor {
    pub limit: Duration,
    pub metrics: Metrics,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let Self { limit, metrics } = self.clone();
        let flight = Arc::new(Flight::default());
        let watched = Arc::clone(&flight);
        tokio::spawn(FLIGHT.scope(flight, async move {
            tokio::select! {
                () = stream => {}
                () = watched.stalled(limit) => {
                    metrics.slow_readers_dropped.inc();
                }
            }
        }));
    }
}

/// An answer that goes out piece by piece.
pub struct PieceBody {
    inner: Body,
    flight: Arc<Flight>,
    budgets: Option<Budgets>,
    /// What is left of the chunk that `inner` gave last, and the right to hold it.
    chunk: Bytes,
    lease: Option<Lease>,
}

impl PieceBody {
    /// `lease` is the right to hold what `inner` has in memory already. Further large chunks take theirs from
    /// `budgets`.
    pub fn new(
        inner: Body,
        flight: Arc<Flight>,
        budgets: Option<Budgets>,
        lease: Option<Lease>,
    ) -> Self {
        Self { inner, flight, budgets, chunk: Bytes::new(), lease }
    }

    fn piece(&mut self) -> Bytes {
        let is_part = self.chunk.len() > PIECE_BYTES || self.lease.is_some();
        let mut bytes = self.chunk.split_to(self.chunk.len().min(PIECE_BYTES));
        if self.chunk.is_empty() {
            self.chunk = Bytes::new();
            self.lease = None;
            if is_part {
                // Otherwise the last piece would keep the whole chunk in memory.
                bytes = Bytes::copy_from_slice(&bytes);
            }
        }
        self.flight.set(Some(Instant::now()));
        Bytes::from_owner(Piece { bytes, flight: Arc::clone(&self.flight) })
    }
}

impl HttpBody for PieceBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        std::task::ready!(this.flight.poll_free(context));
        while this.chunk.is_empty() {
            match std::task::ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.chunk = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
            if this.chunk.len() > PIECE_BYTES
                && this.lease.is_none()
                && let Some(budgets) = &this.budgets
            {
                let Some(lease) = budgets.take(this.chunk.len()) else {
                    return Poll::Ready(Some(Err(axum::Error::new(TooMuch))));
                };
                this.lease = Some(lease);
            }
        }
        Poll::Ready(Some(Ok(Frame::data(this.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        // The end follows the last piece when that has been taken, so that the time limit counts until then.
        self.chunk.is_empty() && self.flight.since().is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let held = self.chunk.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

/// Too many bytes wait for clients that do not read.
#[derive(Debug, thiserror::Error)]
#[error("too many bytes of answers wait for clients that do not read")]
struct TooMuch;

/// The bytes of an answer that are sent at once.
pub const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of large answers that wait for one connection.
const CONNECTION_BYTES_MAX: usize = 16 << 20;
/// Bytes of large answers that wait for one address.
const ADDRESS_BYTES_MAX: usize = 64 << 20;
/// Bytes of large answers that wait for all clients of an instance.
const PROCESS_BYTES_MAX: usize = 256 << 20;

/// Bytes that may be held at once. Clones share them.
#[derive(Clone, Debug)]
pub struct Budget(pub(crate) Arc<Semaphore>);

/// The budgets of one connection; clones share them.
#[derive(Clone, Debug)]
pub struct Budgets(Arc<[Budget]>);

/// The right to hold some bytes; dropping it gives them back.
#[derive(Debug)]
pub struct Lease {
    _parts: Vec<OwnedSemaphorePermit>,
}

impl Budgets {
    /// The budgets of a new connection, beside those of its address, if it is limited, and of the process.
    pub fn of_connection(address: Option<Budget>, process: Budget) -> Self {
        let own = Budget::new(CONNECTION_BYTES_MAX);
        Self([own, process].into_iter().chain(address).collect())
    }

    /// Takes bytes from each budget; `None` when one has too few, which takes nothing.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Lease> {
        let bytes = u32::try_from(bytes).ok()?;
        let parts =
            self.0.iter().map(|Budget(left)| Arc::clone(left).try_acquire_many_owned(bytes));
        parts.collect::<Result<_, _>>().ok().map(|parts| Lease { _parts: parts })
    }
}

impl Budget {
    /// The budget of an address.
    pub fn of_address() -> Self {
        Self::new(ADDRESS_BYTES_MAX)
    }

    /// The budget of the process.
    pub fn of_process() -> Self {
        Self::new(PROCESS_BYTES_MAX)
    }

    fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_used_up_takes_nothing_from_the_others() {
        let process = Budget::new(250);
        let connection = |bytes_max| Budgets([Budget::new(bytes_max), process.clone()].into());
        let one = connection(100);
        let first = one.take(60).expect("enough");
        assert!(one.take(60).is_none(), "of its own budget");
        assert_eq!(process.0.available_permits(), 190, "a refusal keeps nothing");
        let two = connection(1_000);
        let second = two.take(190).expect("the rest");
        assert!(two.take(1).is_none(), "of the process");
        drop((first, second));
        assert!(one.take(100).is_some());
    }
}
