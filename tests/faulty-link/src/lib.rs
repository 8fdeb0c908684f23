//! A TCP proxy for tests, between a client and a server on this machine. It breaks connections as
//! networks do: it delays, cuts, stalls, throttles, or catches one message ("the
//! COMMIT") before or after the server has acted on it.
//!
//! ```rust
//! use faulty_link::{Fault, FaultyLink, Trap};
//!
//! # async fn example() -> std::io::Result<()> {
//! let link = FaultyLink::to("127.0.0.1:3306").await?;
//! // The program under test connects to `link.addr()`.
//! link.set(Fault::Stall); // nothing passes, and nobody is told
//! link.mend(); // what was sent meanwhile arrives late
//! // The next COMMIT reaches the server; its answer does not reach the client.
//! link.trap(Trap::at(b"\x03COMMIT").lose_answer());
//! link.until_sprung().await; // wait until it is on its way
//! # Ok(())
//! # }
//! ```
//!
//! | operation | what the client sees |
//! |---|---|
//! | `set(Fault::Delay(time))` | every request arrives later by that time |
//! | `set(Fault::Dribble(pause))` | answers come a byte at a time |
//! | `set(Fault::Stall)` | silence; what was sent arrives after `mend` |
//! | `set(Fault::Silence)` | silence; the connection ends at `mend` |
//! | `set(Fault::Refuse)`, `cut()` | both ends are closed, new connections too |
//! | `strand()` | today's connections are silent for ever, new ones work |
//! | `lead_to(server)` | new connections reach another server |
//! | `trap(Trap::at(pattern)...)` | one message is held, cut, or loses its answer |
//!
//! A pattern is looked for in each piece that the proxy reads. A message that the sender's kernel cuts
//! in two is not seen; clients send short commands in one piece.
//!
//! The link lives on the tokio runtime that made it, and ends with all its connections when dropped.

mod connection;
mod fault;
mod trap;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use fault::Fault;
pub use trap::Trap;
use trap::{Direction, TrapEffect};

/// A TCP proxy on a loopback port in front of one server. It ends when dropped.
#[derive(Debug)]
pub struct FaultyLink {
    addr: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// Where a link leads: `host:port`, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// `host:port`.
    Tcp(String),
    /// A socket file.
    Unix(PathBuf),
}

/// What the link is told, and what it counts.
#[derive(Debug)]
struct Shared {
    orders: watch::Sender<Orders>,
    server: Mutex<Server>,
    edits: Mutex<Edits>,
    connections: AtomicUsize,
    counted: AtomicU64,
    bites: AtomicU64,
    caught: AtomicU64,
    held: watch::Sender<u64>,
}

/// What the link is told to do.
#[derive(Debug, Default)]
struct Orders {
    fault: Fault,
    trap: Option<Trap>,
    /// Matches of the trap so far.
    matches: u64,
    /// Grows each time that the link is told something.
    number: u64,
    /// Connections with a lower number are stranded.
    stranded: usize,
}

/// Patterns to count and to replace in requests; an empty one is none.
#[derive(Debug, Default)]
struct Edits {
    count: Vec<u8>,
    replace: Vec<u8>,
    /// As long as the pattern that it replaces.
    instead: Vec<u8>,
}

impl FaultyLink {
    /// A link without a fault to a server.
    pub async fn to(server: impl Into<Server>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            orders: watch::Sender::default(),
            server: Mutex::new(server.into()),
            edits: Mutex::default(),
            connections: AtomicUsize::new(0),
            counted: AtomicU64::new(0),
            bites: AtomicU64::new(0),
            caught: AtomicU64::new(0),
            held: watch::Sender::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { addr, url: format!("tcp://{addr}"), shared, accepting })
    }

    /// A link to the server of a URL that names host and port, such as `redis://:pw@host:6379/0`.
    pub async fn to_url(url: &str) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "URL without host and port");
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let server = authority.rsplit('@').next().unwrap_or_default();
        if !server.contains(':') {
            return Err(wrong());
        }
        let mut link = Self::to(server).await?;
        let at = url.len() - rest.len() + authority.len() - server.len();
        link.url = format!("{}{}{}", &url[..at], link.addr, &url[at + server.len()..]);
        Ok(link)
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// The URL given to [`to_url`](FaultyLink::to_url), by way of the link; else `tcp://` and the
    /// address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Has this fault from now on. A trap is removed; whatever it holds is let go.
    pub fn set(&self, fault: Fault) {
        self.told(|orders| (orders.fault, orders.trap) = (fault, None));
    }

    /// Has no fault from now on.
    pub fn mend(&self) {
        self.set(Fault::Pass);
    }

    /// Closes every connection, and new ones as soon as they are accepted.
    pub fn cut(&self) {
        self.set(Fault::Refuse);
    }

    /// Has no fault but this trap from now on.
    pub fn trap(&self, trap: Trap) {
        self.told(|orders| {
            orders.fault = Fault::Pass;
            orders.trap = Some(trap);
            orders.matches = 0;
        });
    }

    /// Silences the connections of this moment for ever, in both directions and without a word to
    /// either end. New ones work.
    pub fn strand(&self) {
        let before = self.connections();
        self.told(|orders| orders.stranded = before);
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, server: impl Into<Server>) {
        *lock(&self.shared.server) = server.into();
    }

    /// Overwrites this pattern with blanks in requests from now on.
    pub fn blank(&self, pattern: &[u8]) {
        self.edit(pattern, vec![b' '; pattern.len()]);
    }

    /// Puts as many other bytes in the place of this pattern in requests from now on.
    pub fn replace<const LENGTH: usize>(&self, pattern: &[u8; LENGTH], instead: &[u8; LENGTH]) {
        self.edit(pattern, instead.to_vec());
    }

    fn edit(&self, pattern: &[u8], instead: Vec<u8>) {
        let mut edits = lock(&self.shared.edits);
        edits.replace = pattern.to_vec();
        edits.instead = instead;
    }

    /// Counts requests with this pattern from now on; [`counted`](FaultyLink::counted) tells.
    pub fn count(&self, pattern: &[u8]) {
        pattern.clone_into(&mut lock(&self.shared.edits).count);
    }

    /// How often the counted pattern passed towards the server.
    pub fn counted(&self) -> u64 {
        self.shared.counted.load(Ordering::SeqCst)
    }

    /// The fault at this moment.
    pub fn fault(&self) -> Fault {
        self.shared.orders.borrow().fault
    }

    /// How many connections were asked for so far, refused ones included.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How often the link cut, held back, delayed or dropped something: proof that the fault bit.
    pub fn bites(&self) -> u64 {
        self.shared.bites.load(Ordering::SeqCst)
    }

    /// How often a trap has sprung and its message was held, cut, or lost its answer.
    pub fn caught(&self) -> u64 {
        self.shared.caught.load(Ordering::SeqCst)
    }

    /// Waits until no trap is set: the one that springs once has sprung. It has no bound of its own:
    /// wrap it in a time-out.
    pub async fn until_sprung(&self) {
        let _ = self.shared.orders.subscribe().wait_for(|orders| orders.trap.is_none()).await;
    }

    /// Waits until traps hold this many messages at once. It has no bound of its own: wrap it in a
    /// time-out.
    pub async fn holds(&self, messages: u64) {
        let _ = self.shared.held.subscribe().wait_for(|held| *held >= messages).await;
    }

    /// How many messages traps hold at this moment.
    pub fn held(&self) -> u64 {
        *self.shared.held.borrow()
    }

    fn told(&self, change: impl FnOnce(&mut Orders)) {
        self.shared.orders.send_modify(|orders| {
            change(orders);
            orders.number += 1;
        });
    }
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl From<&str> for Server {
    fn from(address: &str) -> Self {
        if address.starts_with('/') {
            Self::Unix(address.into())
        } else {
            Self::Tcp(address.to_owned())
        }
    }
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address.to_string())
    }
}

/// A port of this machine's loopback address.
impl From<u16> for Server {
    fn from(port: u16) -> Self {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()
    }
}

impl Shared {
    fn bite(&self) {
        self.bites.fetch_add(1, Ordering::SeqCst);
    }

    fn catch(&self) {
        self.bite();
        self.caught.fetch_add(1, Ordering::SeqCst);
    }

    /// What is to be done with a piece if the trap springs.
    fn springs(&self, direction: Direction, piece: &[u8]) -> Option<TrapEffect> {
        let mut sprung = None;
        self.orders.send_if_modified(|orders| {
            let Some(trap) = &orders.trap else { return false };
            if !trap.matches(direction, piece) {
                return false;
            }
            let number = orders.matches.checked_sub(trap.skip);
            orders.matches += 1;
            if number.is_none_or(|number| !number.is_multiple_of(trap.every.unwrap_or(1))) {
                return false;
            }
            sprung = Some(TrapEffect { act: trap.act, then: trap.then, order: orders.number });
            let gone = trap.every.is_none();
            if gone {
                orders.trap = None;
            }
            gone
        });
        sprung
    }

    /// Takes the fault that follows a sprung trap.
    fn follow(&self, fault: Fault) {
        if fault != Fault::Pass {
            self.orders.send_modify(|orders| orders.fault = fault);
        }
    }

    /// Waits until the link is told something after the order of this number.
    async fn told_after(&self, order: u64) {
        let _ = self.orders.subscribe().wait_for(|orders| orders.number != order).await;
    }

    /// Holds a message until the link is told something after the order of this number.
    async fn hold(&self, order: u64) {
        self.held.send_modify(|held| *held += 1);
        self.catch();
        self.told_after(order).await;
        self.held.send_modify(|held| *held -= 1);
    }

    /// Whether a new connection is refused.
    fn refuses(&self) -> bool {
        let mut refuses = false;
        self.orders.send_if_modified(|orders| {
            refuses = matches!(orders.fault, Fault::Refuse | Fault::RefuseNext);
            let once = orders.fault == Fault::RefuseNext;
            if once {
                orders.fault = Fault::Pass;
            }
            once
        });
        refuses
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = shared.connections.fetch_add(1, Ordering::SeqCst);
        if shared.refuses() {
            shared.bite();
            continue;
        }
        let server = lock(&shared.server).clone();
        connections.spawn(serve(client, server, number, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(client: TcpStream, server: Server, number: usize, shared: Arc<Shared>) {
    let _ = client.set_nodelay(true);
    match server {
        Server::Tcp(address) => {
            // A server that is away looks like one that closes.
            let Ok(server) = TcpStream::connect(address).await else { return };
            let _ = server.set_nodelay(true);
            let (from, to) = server.into_split();
            connection::join(client, from, to, number, &shared).await;
        }
        Server::Unix(path) => {
            let Ok(server) = tokio::net::UnixStream::connect(path).await else { return };
            let (from, to) = server.into_split();
            connection::join(client, from, to, number, &shared).await;
        }
    }
}

/// Locks a value of which every panic leaves a usable one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where `pattern` begins in `bytes`.
fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    if pattern.is_empty() {
        return Some(0);
    }
    bytes.windows(pattern.len()).position(|window| window == pattern)
}
