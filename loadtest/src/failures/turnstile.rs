//! A turnstile in front of the database: it lets an instance's traffic through, and on request
//! holds each transaction at its BEGIN. So a purchase can be stopped between its look at the stock
//! and its write, every time, without touching the service.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::MySqlConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::CannotJudge;

/// A command that begins a transaction, as it travels: "query" and its text.
const BEGIN: &[u8] = b"\x03BEGIN";
/// A purchase that has not come to its write by then does not come at all.
const HELD_WAIT_MAX: Duration = Duration::from_secs(15);

/// An open or closed turnstile; dropping it ends its connections.
pub struct Turnstile {
    state: Arc<State>,
    /// The database's address through the turnstile.
    pub url: String,
    accepting: JoinHandle<()>,
}

struct State {
    closed: watch::Sender<bool>,
    held: watch::Sender<usize>,
}

/// Where the database itself is.
#[derive(Clone)]
enum Place {
    Socket(String),
    Address(String),
}

impl Turnstile {
    /// Stands in front of the database of a `mysql://` address.
    pub async fn open(url: &str) -> Result<Self, CannotJudge> {
        let place = place(url)?;
        let cannot = |error| CannotJudge(format!("no turnstile: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let state = Arc::new(State { closed: watch::channel(false).0, held: watch::channel(0).0 });
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            // Ends with all its connections when the turnstile is dropped.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, place.clone(), Arc::clone(&shared)));
            }
        });
        Ok(Self { state, url: through(url, port)?, accepting })
    }

    /// From now on every BEGIN is held.
    pub fn close(&self) {
        self.state.closed.send_replace(true);
    }

    /// Lets everybody through again, also those who were held.
    pub fn reopen(&self) {
        self.state.closed.send_replace(false);
    }

    /// Waits until so many transactions are held.
    pub async fn holds(&self, count: usize) -> Result<(), CannotJudge> {
        let mut held = self.state.held.subscribe();
        let reached = timeout(HELD_WAIT_MAX, held.wait_for(|held| *held >= count)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            _ => Err(CannotJudge(format!(
                "{} of {count} purchases came to their write in {} s",
                *self.state.held.borrow(),
                HELD_WAIT_MAX.as_secs()
            ))),
        }
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(client: TcpStream, place: Place, state: Arc<State>) {
    let _ = client.set_nodelay(true);
    match place {
        Place::Socket(path) => {
            if let Ok(server) = UnixStream::connect(path).await {
                let (from_server, to_server) = tokio::io::split(server);
                pump(client, from_server, to_server, &state).await;
            }
        }
        Place::Address(address) => {
            if let Ok(server) = TcpStream::connect(address).await {
                let _ = server.set_nodelay(true);
                let (from_server, to_server) = tokio::io::split(server);
                pump(client, from_server, to_server, &state).await;
            }
        }
    }
}

async fn pump(
    client: TcpStream,
    mut from_server: impl AsyncRead + Unpin,
    mut to_server: impl AsyncWrite + Unpin,
    state: &State,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let forth = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            let piece = &buffer[..length];
            if piece.windows(BEGIN.len()).any(|window| window == BEGIN) {
                wait_while_closed(state).await;
            }
            if to_server.write_all(piece).await.is_err() {
                break;
            }
        }
    };
    let back = async { tokio::io::copy(&mut from_server, &mut to_client).await };
    tokio::select! {
        () = forth => {}
        _ = back => {}
    }
}

async fn wait_while_closed(state: &State) {
    let mut closed = state.closed.subscribe();
    if !*closed.borrow_and_update() {
        return;
    }
    state.held.send_modify(|held| *held += 1);
    let _ = closed.wait_for(|closed| !closed).await;
    state.held.send_modify(|held| *held -= 1);
}

fn place(url: &str) -> Result<Place, CannotJudge> {
    let options = MySqlConnectOptions::from_str(url).map_err(|_| not_mysql())?;
    Ok(match options.get_socket() {
        Some(path) => Place::Socket(path.display().to_string()),
        None => Place::Address(format!("{}:{}", options.get_host(), options.get_port())),
    })
}

/// The same account and database at another address, without a socket.
fn through(url: &str, port: u16) -> Result<String, CannotJudge> {
    let (account, rest) = url.rsplit_once('@').ok_or_else(not_mysql)?;
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let database = path.split_once('?').map_or(path, |(database, _)| database);
    Ok(format!("{account}@127.0.0.1:{port}/{database}"))
}

fn not_mysql() -> CannotJudge {
    CannotJudge("DATABASE_URL is not a mysql:// address with an account".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_leads_through_the_turnstile() {
        let url = "mysql://me:secret@localhost/shop?socket=%2Frun%2Fmysql.sock&charset=utf8mb4";
        let led = through(url, 7).expect("an address");
        assert_eq!(led, "mysql://me:secret@127.0.0.1:7/shop");
        assert!(matches!(place(url), Ok(Place::Socket(path)) if path == "/run/mysql.sock"));
        assert!(
            matches!(place("mysql://me@db:3307/shop"), Ok(Place::Address(at)) if at == "db:3307")
        );
    }

    #[tokio::test]
    async fn a_closed_turnstile_holds_begins_and_nothing_else() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("mysql://me@{}/shop", server.local_addr().expect("an address"));
        let turnstile = Turnstile::open(&url).await.expect("open");
        let address = turnstile.url.split(['@', '/']).nth(3).expect("an address").to_owned();
        let mut client = TcpStream::connect(address).await.expect("connected");
        let (mut upstream, _) = server.accept().await.expect("accepted");
        let mut read = async |length: usize| {
            let mut bytes = vec![0; length];
            upstream.read_exact(&mut bytes).await.expect("bytes");
            bytes
        };
        turnstile.close();
        client.write_all(b"\x03SELECT 1").await.expect("sent");
        assert_eq!(read(9).await, b"\x03SELECT 1");
        client.write_all(BEGIN).await.expect("sent");
        turnstile.holds(1).await.expect("held");
        turnstile.reopen();
        assert_eq!(read(BEGIN.len()).await, BEGIN);
    }
}
