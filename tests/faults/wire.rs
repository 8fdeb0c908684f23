//! A link to a server that can be broken in the ways in which links break.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Run;

/// Commands of the database's protocol: "query" and its text.
const COMMIT: &[u8] = b"\x03COMMIT";
const BEGIN: &[u8] = b"\x03BEGIN";
/// One in so many answers is cut in the middle.
const RESET_EVERY: u64 = 5;

/// What a link does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Passes everything on.
    Works,
    /// Breaks every connection, and those to come.
    Refuses,
    /// Passes nothing on and breaks nothing; what was sent arrives once it works again.
    BlackHole,
    /// Every piece arrives so much later.
    Late(Duration),
    /// Answers come a byte at a time, with so much between them.
    Dribbles(Duration),
    /// Every few answers the connection is reset in the middle of one.
    Resets,
    /// Passes every few COMMITs on, waits for the answer, and breaks instead of passing that back.
    LosesCommitAnswers,
    /// Breaks instead of passing on every few COMMITs.
    LosesCommits,
    /// Transactions wait at their BEGIN until it works again.
    HoldsBegins,
}

/// Listens on a loopback port and passes on to a server. Ends when dropped.
pub struct Wire {
    /// Where it listens.
    pub port: u16,
    link: watch::Sender<Link>,
    server: watch::Sender<u16>,
    counts: Arc<Counts>,
    _end: DropGuard,
}

/// Proof that the fault bit.
#[derive(Default)]
struct Counts {
    /// Connections broken, pieces held back or cut.
    bites: AtomicU64,
    /// Answers that went by while resetting, COMMITs while losing.
    passed: AtomicU64,
}

impl Wire {
    /// A whole link to a port of this machine.
    pub async fn to(server: u16) -> Run<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|error| said(&error))?;
        let port = listener.local_addr().map_err(|error| said(&error))?.port();
        let (link, server) = (watch::channel(Link::Works).0, watch::channel(server).0);
        let counts = Arc::new(Counts::default());
        let end = CancellationToken::new();
        let serve = serve(listener, link.clone(), server.clone(), Arc::clone(&counts));
        let ended = end.clone();
        tokio::spawn(async move { ended.run_until_cancelled(serve).await });
        Ok(Self { port, link, server, counts, _end: end.drop_guard() })
    }

    /// From now on.
    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// Leads connections to come to another server.
    pub fn lead_to(&self, server: u16) {
        self.server.send_replace(server);
    }

    /// How often it broke, held back or cut something.
    pub fn bites(&self) -> u64 {
        self.counts.bites.load(Ordering::SeqCst)
    }
}

fn said(error: &std::io::Error) -> String {
    format!("a link: {error}")
}

async fn serve(
    listener: TcpListener,
    link: watch::Sender<Link>,
    server: watch::Sender<u16>,
    counts: Arc<Counts>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *link.borrow() == Link::Refuses {
            counts.bites.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let port = *server.borrow();
        let (link, counts) = (link.clone(), Arc::clone(&counts));
        connections.spawn(async move {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let Ok(server) = TcpStream::connect(server).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            join(client, server, link, &counts).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Passes both ways until either ends or the link refuses.
async fn join(client: TcpStream, server: TcpStream, link: watch::Sender<Link>, counts: &Counts) {
    let mut refused = link.subscribe();
    let commit_lost = CancellationToken::new();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        refusal = refused.wait_for(|link| *link == Link::Refuses) => {
            if refusal.is_ok() {
                counts.bites.fetch_add(1, Ordering::SeqCst);
            }
        }
        () = pass_requests(from_client, to_server, &link, counts, &commit_lost) => {}
        () = pass_answers(from_server, to_client, &link, counts, &commit_lost) => {}
    }
}

async fn pass_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &watch::Sender<Link>,
    counts: &Counts,
    commit_lost: &CancellationToken,
) {
    let mut changes = link.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    while let Some(bytes) = read(&mut from, &mut buffer).await {
        let now = *link.borrow();
        match now {
            Link::BlackHole => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                if changes.wait_for(|link| *link != Link::BlackHole).await.is_err() {
                    return;
                }
            }
            Link::HoldsBegins if has(bytes, BEGIN) => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                if changes.wait_for(|link| *link != Link::HoldsBegins).await.is_err() {
                    return;
                }
            }
            Link::Late(by) => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(by).await;
            }
            Link::LosesCommits | Link::LosesCommitAnswers
                if has(bytes, COMMIT) && is_chosen(counts) =>
            {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                if now == Link::LosesCommits {
                    return;
                }
                commit_lost.cancel();
            }
            _ => {}
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn pass_answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    link: &watch::Sender<Link>,
    counts: &Counts,
    commit_lost: &CancellationToken,
) {
    let mut changes = link.subscribe();
    let mut buffer = vec![0; 16 * 1024];
    while let Some(bytes) = read(&mut from, &mut buffer).await {
        if commit_lost.is_cancelled() {
            // The answer is there: it is committed. Nobody will hear of it.
            return;
        }
        let now = *link.borrow();
        match now {
            Link::BlackHole => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                if changes.wait_for(|link| *link != Link::BlackHole).await.is_err() {
                    return;
                }
            }
            Link::Resets if is_chosen(counts) => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                let _ = to.write_all(&bytes[..bytes.len() / 2]).await;
                // Unsent data and no farewell: a reset.
                let _ = socket2::SockRef::from(to.as_ref()).set_linger(Some(Duration::ZERO));
                return;
            }
            Link::Dribbles(pause) => {
                counts.bites.fetch_add(1, Ordering::SeqCst);
                for byte in bytes {
                    if to.write_all(std::slice::from_ref(byte)).await.is_err() {
                        return;
                    }
                    // Mended: the rest comes at once.
                    let mended = changes.wait_for(|link| !matches!(link, Link::Dribbles(_)));
                    let _ = tokio::time::timeout(pause, mended).await;
                }
                continue;
            }
            _ => {}
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// Every few of them, the first included.
fn is_chosen(counts: &Counts) -> bool {
    counts.passed.fetch_add(1, Ordering::SeqCst).is_multiple_of(RESET_EVERY)
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

async fn read<'a>(from: &mut OwnedReadHalf, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = from.read(buffer).await.ok().filter(|length| *length > 0)?;
    Some(&buffer[..length])
}
