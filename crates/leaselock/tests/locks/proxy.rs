//! A link to Redis that can be broken in the ways in which links break.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::{ConnectionAddr, IntoConnectionInfo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the link does with what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Passes everything on.
    Works,
    /// Passes nothing on, breaks no connection, and delivers everything late once it works again.
    Stalls,
    /// Passes requests on, then breaks the connection instead of passing on the next answer, and
    /// works again.
    LosesNextAnswer,
    /// Breaks every connection.
    Refuses,
}

/// Listens on a loopback port and stands between one process and the server. Ends when dropped.
pub struct Proxy {
    port: u16,
    /// `:password@` of the server's address, or nothing.
    credentials: String,
    link: watch::Sender<Link>,
    scripts_run: Arc<AtomicU64>,
    _end: DropGuard,
}

impl Proxy {
    pub async fn start(server_url: &str) -> Self {
        let server = server_url.into_connection_info().expect("a Redis URL");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (link, _) = watch::channel(Link::Works);
        let scripts_run = Arc::new(AtomicU64::new(0));
        let end = CancellationToken::new();
        let serve = serve(listener, server.addr().clone(), link.clone(), Arc::clone(&scripts_run));
        let ended = end.clone();
        tokio::spawn(async move { ended.run_until_cancelled(serve).await });
        let password = server.redis_settings().password().map(|password| format!(":{password}@"));
        let credentials = password.unwrap_or_default();
        Self { port, credentials, link, scripts_run, _end: end.drop_guard() }
    }

    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.credentials, self.port)
    }

    /// Where it listens, for a client that is no Redis client.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// How many script calls went through towards the server so far.
    pub fn scripts_run(&self) -> u64 {
        self.scripts_run.load(Ordering::SeqCst)
    }

    /// Waits until the link has lost the answer that it was told to lose.
    pub async fn answer_lost(&self) {
        let mut link = self.link.subscribe();
        link.wait_for(|link| *link != Link::LosesNextAnswer).await.expect("the proxy runs");
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn connect(server: &ConnectionAddr) -> Box<dyn Stream> {
    match server {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await;
            let stream = stream.expect("the server accepts");
            stream.set_nodelay(true).expect("TCP_NODELAY");
            Box::new(stream)
        }
        ConnectionAddr::Unix(path) => {
            Box::new(UnixStream::connect(path).await.expect("the server accepts"))
        }
        other => panic!("no proxy for {other:?}"),
    }
}

async fn serve(
    listener: TcpListener,
    server: ConnectionAddr,
    link: watch::Sender<Link>,
    scripts_run: Arc<AtomicU64>,
) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.expect("accept");
        if *link.borrow() == Link::Refuses {
            continue;
        }
        client.set_nodelay(true).expect("TCP_NODELAY");
        let upstream = connect(&server).await;
        let (link, scripts_run) = (link.clone(), Arc::clone(&scripts_run));
        connections.spawn(async move {
            let (from_client, to_client) = tokio::io::split(client);
            let (from_server, to_server) = tokio::io::split(upstream);
            let mut refused = link.subscribe();
            // Whichever ends first ends the connection.
            tokio::select! {
                _ = refused.wait_for(|link| *link == Link::Refuses) => {}
                () = pass_requests(from_client, to_server, &link, &scripts_run) => {}
                () = pass_answers(from_server, to_client, &link) => {}
            }
        });
    }
}

async fn pass_requests(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    link: &watch::Sender<Link>,
    scripts_run: &AtomicU64,
) {
    const CALL: &[u8] = b"EVALSHA";
    let mut works = link.subscribe();
    let mut seen = Vec::new();
    while let Some(bytes) = read(&mut from).await {
        if works.wait_for(|link| *link != Link::Stalls).await.is_err() {
            return;
        }
        seen.extend_from_slice(&bytes);
        let calls = seen.windows(CALL.len()).filter(|window| *window == CALL);
        scripts_run.fetch_add(calls.count() as u64, Ordering::SeqCst);
        // A call may be cut in two by the next read.
        seen.drain(..seen.len().saturating_sub(CALL.len() - 1));
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn pass_answers(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    link: &watch::Sender<Link>,
) {
    let mut works = link.subscribe();
    while let Some(bytes) = read(&mut from).await {
        if works.wait_for(|link| *link != Link::Stalls).await.is_err() {
            return;
        }
        let loses = link.send_if_modified(|link| {
            let loses = *link == Link::LosesNextAnswer;
            if loses {
                *link = Link::Works;
            }
            loses
        });
        if loses || to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 16 * 1024];
    let length = from.read(&mut bytes).await.ok().filter(|read| *read > 0)?;
    bytes.truncate(length);
    Some(bytes)
}
