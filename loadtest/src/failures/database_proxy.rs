//! A proxy in front of the database: it lets an instance's traffic through, and on request holds each
//! transaction at its BEGIN. So an experiment can stop a purchase between its read of the stock and
//! its write, every time, without a change of the service.

use std::str::FromStr;
use std::time::Duration;

use faulty_link::{FaultyLink, Server, Trap};
use sqlx::mysql::MySqlConnectOptions;
use tokio::time::timeout;

use crate::failure::{CannotJudge, OrCannotJudge};

/// A command that begins a transaction, as it travels: "query" and its text.
const BEGIN: &[u8] = b"\x03BEGIN";
/// A purchase that has not come to its write by then does not come at all.
const HELD_WAIT_MAX: Duration = Duration::from_secs(15);

/// The proxy; dropping it ends its connections.
pub struct DatabaseProxy {
    link: FaultyLink,
    /// The URL of the database through the proxy.
    pub url: String,
}

impl DatabaseProxy {
    /// Opens a proxy in front of the database of a `mysql://` URL.
    pub async fn open(url: &str) -> Result<Self, CannotJudge> {
        let link = FaultyLink::to(address(url)?).await;
        let link = link.or_cannot_judge("no proxy in front of the database")?;
        let url = through(url, link.port())?;
        Ok(Self { link, url })
    }

    /// Holds every BEGIN from now on.
    pub fn hold_transactions(&self) {
        self.link.trap(Trap::at(BEGIN).hold().always());
    }

    /// Lets every transaction through again, also those that are held.
    pub fn release_transactions(&self) {
        self.link.mend();
    }

    /// Waits until this many transactions are held.
    pub async fn until_held(&self, count: u64) -> Result<(), CannotJudge> {
        timeout(HELD_WAIT_MAX, self.link.holds(count)).await.map_err(|_| {
            CannotJudge(format!(
                "{} of {count} purchases came to their write in {} s",
                self.link.held(),
                HELD_WAIT_MAX.as_secs()
            ))
        })
    }
}

fn address(url: &str) -> Result<Server, CannotJudge> {
    let options = MySqlConnectOptions::from_str(url).map_err(|_| not_mysql())?;
    Ok(match options.get_socket() {
        Some(path) => Server::Unix(path.clone()),
        None => Server::Tcp(format!("{}:{}", options.get_host(), options.get_port())),
    })
}

/// `url` with loopback and `port` as its address: account and database stay, a socket is dropped.
fn through(url: &str, port: u16) -> Result<String, CannotJudge> {
    let (account, rest) = url.rsplit_once('@').ok_or_else(not_mysql)?;
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    let database = path.split_once('?').map_or(path, |(database, _)| database);
    Ok(format!("{account}@127.0.0.1:{port}/{database}"))
}

fn not_mysql() -> CannotJudge {
    CannotJudge::new("DATABASE_URL is not a mysql:// address with an account")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_address_leads_through_the_proxy() {
        let url = "mysql://me:secret@localhost/shop?socket=%2Frun%2Fmysql.sock&charset=utf8mb4";
        let led = through(url, 7).expect("an address");
        assert_eq!(led, "mysql://me:secret@127.0.0.1:7/shop");
        assert!(
            matches!(address(url), Ok(Server::Unix(path)) if path == Path::new("/run/mysql.sock"))
        );
        assert!(
            matches!(address("mysql://me@db:3307/shop"), Ok(Server::Tcp(at)) if at == "db:3307")
        );
    }

    #[tokio::test]
    async fn the_proxy_holds_begins_and_nothing_else() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("mysql://me@{}/shop", server.local_addr().expect("an address"));
        let proxy = DatabaseProxy::open(&url).await.expect("open");
        let address = proxy.url.split(['@', '/']).nth(3).expect("an address").to_owned();
        let mut client = TcpStream::connect(address).await.expect("connected");
        let (mut upstream, _) = server.accept().await.expect("accepted");
        let mut read = async |length: usize| {
            let mut bytes = vec![0; length];
            upstream.read_exact(&mut bytes).await.expect("bytes");
            bytes
        };
        proxy.hold_transactions();
        client.write_all(b"\x03SELECT 1").await.expect("sent");
        assert_eq!(read(9).await, b"\x03SELECT 1");
        client.write_all(BEGIN).await.expect("sent");
        proxy.until_held(1).await.expect("held");
        proxy.release_transactions();
        assert_eq!(read(BEGIN.len()).await, BEGIN);
    }
}
