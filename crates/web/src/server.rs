//! Accepts and serves connections. The loop is our own, because axum's has no time-outs.
//!
//! Each connection has TCP_NODELAY, a time-out for a request's head and between requests, and one
//! for a client that does not read; bodies have theirs where they are read (`body`), and streams of HTTP/2
//! theirs where they are written (`flight`). A stop lets
//! requests in flight finish and closes idle connections.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutWriter;

use crate::Application;
use crate::address::Peer;
use crate::budget::{Budget, Budgets};
use crate::connection_limiter::{ConnectionLimiter, ConnectionPermit};
use crate::flight::StreamExecutor;
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

/// Connections that may wait to be accepted; the kernel may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;
/// Unsent bytes that the kernel buffers for one client. Without this limit it would buffer
/// megabytes of events for each client that does not read.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 16 * 1024;

/// Listens on `addr` with a backlog of [`BACKLOG`] connections. With the usual 128, most of a
/// thousand clients that connect at once would try again a second later.
///
/// # Errors
/// Why `addr` cannot be used, as a sentence for the operator.
pub fn listen(addr: SocketAddr) -> Result<TcpListener, String> {
    let bound = || {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit it.
        #[cfg(target_os = "linux")]
        socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        socket.bind(addr)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error: io::Error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            return format!(
                "another program listens on {addr} already: stop it, or choose another address with SECKILL_HTTP_ADDR"
            );
        }
        format!("cannot listen on {addr}: {error}")
    })
}

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

/// Serves `application` on `listener` until the lifecycle stops.
pub async fn serve(
    listener: TcpListener,
    application: impl Application,
    options: ServerOptions,
    lifecycle: Lifecycle,
    metrics: Metrics,
) {
    let slots = Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS)));
    let streams = StreamExecutor { limit: options.write_timeout, metrics: metrics.clone() };
    let process_budget = Budget::of_process();
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
    let builder = Arc::new(builder);
    let service = TowerToHyperService::new(application);
    let stop = lifecycle.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer, slot)) => {
                let Some(permit) = options.connection_limiter.try_acquire(peer) else {
                    metrics.connections_refused.inc();
                    continue;
                };
                let connection = Connection {
                    stream: stream.into_std(),
                    peer,
                    budgets: Budgets::of_connection(
                        permit.budget.clone(),
                        Arc::clone(&process_budget),
                    ),
                    builder: Arc::clone(&builder),
                    head_timeout: options.head_timeout,
                    write_timeout: options.write_timeout,
                    application: service.clone(),
                    metrics: metrics.clone(),
                    _permits: (slot, permit),
                };
                let connections = lifecycle.connections();
                let served = connection.serve(stop.clone());
                match &options.runtimes {
                    Some(runtimes) => connections.spawn_on(served, runtimes.next()),
                    None => connections.spawn(served),
                };
            }
            // No descriptor is left, or the client closed at once: go on, but do not spin.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer.ip(), slot))
}

struct Connection<A> {
    stream: io::Result<std::net::TcpStream>,
    peer: IpAddr,
    budgets: Budgets,
    builder: Arc<auto::Builder<StreamExecutor>>,
    head_timeout: Duration,
    write_timeout: Duration,
    application: TowerToHyperService<A>,
    metrics: Metrics,
    _permits: (OwnedSemaphorePermit, ConnectionPermit),
}

impl<A: Application> Connection<A> {
    async fn serve(self, stop: tokio_util::sync::CancellationToken) {
        // Only here: a stream belongs to the runtime that registers it.
        let Ok(stream) = self.stream.and_then(TcpStream::from_std) else { return };
        self.metrics.connections.inc();
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(self.write_timeout));
        let io = TokioIo::new(Box::pin(stream));
        let has_request = AtomicBool::new(false);
        let peer = Peer(self.peer);
        let application = self.application;
        let has_any = &has_request;
        let budgets = self.budgets;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(budgets.clone());
            has_any.store(true, Ordering::Relaxed);
            application.call(request.map(Body::new))
        });
        let connection = self.builder.serve_connection(io, service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            // hyper's time-out for heads starts when the version of HTTP is known. This one is for
            // clients that send less.
            () = no_request_within(self.head_timeout, &has_request) => Ok(()),
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

/// Whether a connection ended because its client did not read: then an I/O time-out is the cause
/// of hyper's error. A head that is late is an error of hyper without such a cause.
fn is_write_timeout(error: &(dyn Error + 'static)) -> bool {
    let io_error = error.downcast_ref::<io::Error>();
    io_error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        || error.source().is_some_and(is_write_timeout)
}

/// Ends when no request came within `bound`; otherwise never.
async fn no_request_within(bound: Duration, has_request: &AtomicBool) {
    tokio::time::sleep(bound).await;
    if has_request.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
