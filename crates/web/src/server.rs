//! Accepts and serves connections. The loop is our own, because axum's has no time-outs.
//!
//! Each connection has TCP_NODELAY, a time-out for a request's head and between requests, and one
//! for a client that does not read; bodies have theirs where they are read (`body`), and streams of HTTP/2
//! theirs where they are written (`flight`). A stop lets
//! requests in flight finish and closes idle connections.

use std::error::Error;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use futures::future::{join, join_all};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;

use crate::Application;
use crate::address::Peer;
use crate::connection_limiter::{ConnectionLimiter, ConnectionPermit};
use crate::flight::{Budget, Budgets, StreamExecutor};
use crate::listener::{Accepted, Listener};
use crate::prober::Probes;
use crate::runtimes::Runtimes;
use lifecycle::Lifecycle;
use shop_metrics::Metrics;

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: u32 = 32 * 1024;
/// Streams that one HTTP/2 connection may open at once.
const HTTP2_STREAMS_MAX: u32 = 250;
/// Resets of streams that one HTTP/2 connection may have pending before it is closed.
const HTTP2_RESETS_MAX: usize = 50;
/// The pause after an `accept` that failed, as it does when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a stop waits for the first request of a connection that was accepted just before it.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(1);

/// The limits of connections.
#[derive(Clone)]
pub struct ServerOptions {
    /// Open connections; further ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Time until the head of a request is complete, from the start of the connection or the end of
    /// the request before.
    pub head_timeout: Duration,
    /// Open connections of each address; further ones are closed at once.
    pub connection_limiter: ConnectionLimiter,
    /// Time that a write, or a piece of an answer, may wait for a client that does not read.
    pub write_timeout: Duration,
    /// Where connections are served; `None`: on the runtime that accepts them.
    pub runtimes: Option<Runtimes>,
}

/// Serves `application` on `listeners`, and answers `probes`, until the lifecycle stops.
pub async fn serve(
    listeners: Vec<Listener>,
    probes: Probes,
    application: impl Application,
    options: ServerOptions,
    lifecycle: Lifecycle,
    metrics: Metrics,
) {
    let streams = StreamExecutor { limit: options.write_timeout, metrics: metrics.clone() };
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.head_timeout)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_MAX);
    let server = Server {
        slots: Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS))),
        process_budget: Budget::of_process(),
        builder: Arc::new(builder),
        application: Arc::new(TowerToHyperService::new(application)),
        options,
        lifecycle: lifecycle.clone(),
        metrics,
    };
    // A stop waits for all connections: also for one that is being accepted.
    let _accepting = lifecycle.connections().token();
    let accepting = join_all(listeners.iter().map(|listener| server.accept_all(listener)));
    let work = join(accepting, server.answer_probes(probes));
    lifecycle.stopping().run_until_cancelled(work).await;
    // While the stop still waits: the file of a unix socket goes before the process does.
    drop(listeners);
}

/// What all connections share.
struct Server<A> {
    slots: Arc<Semaphore>,
    process_budget: Budget,
    builder: Arc<auto::Builder<StreamExecutor>>,
    application: Arc<TowerToHyperService<A>>,
    options: ServerOptions,
    lifecycle: Lifecycle,
    metrics: Metrics,
}

impl<A: Application> Server<A> {
    /// Accepts connections. After an await that accepted one there is none before it is served, so that a stop
    /// drops none.
    async fn accept_all(&self, listener: &Listener) {
        loop {
            match self.accept(listener).await {
                Ok((stream, slot)) => {
                    let limiter = &self.options.connection_limiter;
                    let Some(permit) = limiter.try_acquire(stream.peer()) else {
                        self.metrics.connections_refused.inc();
                        continue;
                    };
                    let runtime = self.options.runtimes.as_ref().map(Runtimes::next);
                    self.serve_on(runtime, stream, Some((slot, permit)));
                }
                // No descriptor is left, or the client closed at once: go on, but do not spin.
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept(&self, listener: &Listener) -> io::Result<(Accepted, OwnedSemaphorePermit)> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(io::Error::other)?;
        Ok((listener.accept().await?, slot))
    }

    /// Opens a connection to each runtime for whoever asks. They take no slot.
    async fn answer_probes(&self, mut probes: Probes) {
        while let Some(question) = probes.0.recv().await {
            let runtimes = self
                .options
                .runtimes
                .as_ref()
                .map_or_else(|| vec![None], |runtimes| runtimes.all().iter().map(Some).collect());
            let opened = runtimes.into_iter().map(|runtime| {
                let pair = UnixStream::pair()?;
                pair.0.set_nonblocking(true)?;
                pair.1.set_nonblocking(true)?;
                self.serve_on(runtime, Accepted::Unix(pair.0), None);
                Ok(pair.1)
            });
            // Whoever asked may have stopped to wait.
            let _ = question.send(opened.collect());
        }
    }

    fn serve_on(&self, runtime: Option<&Handle>, stream: Accepted, permits: Option<Permits>) {
        let address_budget = permits.as_ref().and_then(|permits| permits.1.budget.clone());
        let connection = Connection {
            stream,
            budgets: Budgets::of_connection(address_budget, self.process_budget.clone()),
            builder: Arc::clone(&self.builder),
            head_timeout: self.options.head_timeout,
            write_timeout: self.options.write_timeout,
            application: Arc::clone(&self.application),
            metrics: self.metrics.clone(),
            _permits: permits,
        };
        let connections = self.lifecycle.connections();
        let served = connection.serve(self.lifecycle.stopping());
        match runtime {
            Some(runtime) => connections.spawn_on(served, runtime),
            None => connections.spawn(served),
        };
    }
}

/// The place among all connections, and among those of its address.
type Permits = (OwnedSemaphorePermit, ConnectionPermit);

struct Connection<A> {
    stream: Accepted,
    budgets: Budgets,
    builder: Arc<auto::Builder<StreamExecutor>>,
    head_timeout: Duration,
    write_timeout: Duration,
    application: Arc<TowerToHyperService<A>>,
    metrics: Metrics,
    _permits: Option<Permits>,
}

impl<A: Application> Connection<A> {
    async fn serve(self, stop: CancellationToken) {
        let peer = Peer(self.stream.peer());
        // Only here: a stream belongs to the runtime that registers it.
        let Ok(stream) = self.stream.register() else { return };
        self.metrics.connections.inc();
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.write_timeout));
        let io = TokioIo::new(Box::pin(stream));
        let first_request = FirstRequest::default();
        let application = self.application;
        let first = &first_request;
        let budgets = self.budgets;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(budgets.clone());
            first.came();
            application.call(request.map(Body::new))
        });
        let connection = self.builder.serve_connection(io, service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            // hyper would close a connection whose first request is on its way.
            () = first_request.stopped(&stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            // hyper's time-out for heads starts when the version of HTTP is known. This one is for
            // clients that send less.
            () = first_request.missed(self.head_timeout) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::trace!(%error, "connection ended with an error");
            if is_write_timeout(error.as_ref()) {
                self.metrics.slow_readers_dropped.inc();
            }
        }
        self.metrics.connections.dec();
    }
}

/// Whether a connection has had a request.
#[derive(Default)]
struct FirstRequest {
    has_come: AtomicBool,
    awaited: Notify,
}

impl FirstRequest {
    fn came(&self) {
        if !self.has_come.load(Ordering::Relaxed) {
            self.has_come.store(true, Ordering::Relaxed);
            self.awaited.notify_one();
        }
    }

    /// Ends after a stop, when the first request has come, or has not for [`FIRST_REQUEST_MAX`].
    async fn stopped(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        if !self.has_come.load(Ordering::Relaxed) {
            let _ = tokio::time::timeout(FIRST_REQUEST_MAX, self.awaited.notified()).await;
        }
    }

    /// Ends when no request came within `bound`; otherwise never.
    async fn missed(&self, bound: Duration) {
        tokio::time::sleep(bound).await;
        if self.has_come.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a connection ended because its client did not read: then an I/O time-out is the cause
/// of hyper's error. A head that is late is an error of hyper without such a cause.
fn is_write_timeout(error: &(dyn Error + 'static)) -> bool {
    let io_error = error.downcast_ref::<io::Error>();
    io_error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        || error.source().is_some_and(is_write_timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of ten thousand buyers has a connection, which keeps its size while it waits for a request.
    #[test]
    fn a_connection_that_waits_is_small() {
        let metrics = Metrics::new();
        let streams = StreamExecutor { limit: Duration::ZERO, metrics: metrics.clone() };
        let pair = UnixStream::pair().expect("two sockets");
        let connection = Connection {
            stream: Accepted::Unix(pair.0),
            budgets: Budgets::of_connection(None, Budget::of_process()),
            builder: Arc::new(auto::Builder::new(streams)),
            head_timeout: Duration::ZERO,
            write_timeout: Duration::ZERO,
            application: Arc::new(TowerToHyperService::new(axum::Router::new())),
            metrics,
            _permits: None,
        };
        let bytes = size_of_val(&connection.serve(CancellationToken::new()));
        assert!(bytes <= 3 * 1024, "{bytes} bytes");
    }
}
