//! The accept loop: our own, because axum's sets no deadlines.
//!
//! Each connection has TCP_NODELAY, a deadline for its head, and one between requests; bodies have
//! theirs where they are read. A stop lets requests in flight finish and closes the rest.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::address::Peer;
use super::crowd::{Crowd, Visit};
use super::patience::Patient;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Streams that one HTTP/2 connection may open at once.
const HTTP2_STREAMS_MAX: u32 = 250;
/// Resets of streams that one HTTP/2 connection may have pending before it is closed.
const HTTP2_RESETS_MAX: usize = 50;
/// How long to wait when the machine has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that may wait to be accepted; the kernel may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;
/// Bytes that the kernel keeps for a client before it has sent them. Without a bound it would hold
/// megabytes of events for each page that does not read.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 16 * 1024;

/// Listens with a queue that holds a crowd which connects in the same second: with the usual 128
/// places the rest would try again a second later.
///
/// # Errors
/// A sentence for the operator.
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
                "something else listens on {addr} already: stop it, or choose another address with SECKILL_HTTP_ADDR"
            );
        }
        format!("cannot listen on {addr}: {error}")
    })
}

/// How connections are served.
#[derive(Clone)]
pub struct ServerOptions {
    /// Open connections; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// Time until a request's head is complete, also the first one's and, on a kept connection,
    /// the next one's.
    pub head_timeout: Duration,
    /// Who is connected; one address too often is closed at once.
    pub crowd: Crowd,
    /// Time that a client may take nothing of what is written to it.
    pub write_timeout: Duration,
}

/// Serves `router` on `listener` until the lifecycle stops.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServerOptions,
    lifecycle: Lifecycle,
    metrics: Metrics,
) {
    let places = Arc::new(Semaphore::new(options.connections_max.min(Semaphore::MAX_PERMITS)));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.head_timeout)
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_MAX);
    let builder = Arc::new(builder);
    let service = TowerToHyperService::new(router);
    let stop = lifecycle.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let Some(visit) = options.crowd.enter(peer) else {
                    metrics.connections_refused.inc();
                    continue;
                };
                let connection = Connection {
                    stream,
                    peer,
                    builder: Arc::clone(&builder),
                    head_timeout: options.head_timeout,
                    write_timeout: options.write_timeout,
                    service: service.clone(),
                    metrics: metrics.clone(),
                    _place: (place, visit),
                };
                lifecycle.connections().spawn(connection.serve(stop.clone()));
            }
            // Out of descriptors, or the client was gone at once: go on, but do not spin.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer.ip(), place))
}

struct Connection {
    stream: TcpStream,
    peer: IpAddr,
    builder: Arc<auto::Builder<TokioExecutor>>,
    head_timeout: Duration,
    write_timeout: Duration,
    service: TowerToHyperService<Router>,
    metrics: Metrics,
    _place: (OwnedSemaphorePermit, Visit),
}

impl Connection {
    async fn serve(self, stop: tokio_util::sync::CancellationToken) {
        self.metrics.connections.inc();
        let dropped = self.metrics.slow_readers_dropped.clone();
        let io = TokioIo::new(Patient::new(self.stream, self.write_timeout, dropped));
        let has_asked = AtomicBool::new(false);
        let peer = Peer(self.peer);
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            has_asked.store(true, Ordering::Relaxed);
            self.service.call(request)
        });
        let connection = self.builder.serve_connection(io, service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            // The deadline for heads begins once it is known which HTTP is spoken; whoever never
            // says so much has this one.
            () = silence(self.head_timeout, &has_asked) => Ok(()),
        };
        if let Err(error) = ended {
            tracing::trace!(%error, "a connection ended early");
        }
        self.metrics.connections.dec();
    }
}

/// Ends when nothing was asked within `bound`.
async fn silence(bound: Duration, has_asked: &AtomicBool) {
    tokio::time::sleep(bound).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}
