//! A link to Redis that can be broken in the ways in which links break.

use faulty_link::{Fault, FaultyLink, Server, Trap};
use redis::{ConnectionAddr, IntoConnectionInfo};

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

/// A [`FaultyLink`] that counts script calls and can be asked for the URL that leads through it.
pub struct Proxy {
    link: FaultyLink,
    /// `:password@` of the server's address, or nothing.
    credentials: String,
}

impl Proxy {
    pub async fn start(server_url: &str) -> Self {
        let server = server_url.into_connection_info().expect("a Redis URL");
        let password = server.redis_settings().password().map(|password| format!(":{password}@"));
        let address = match server.addr() {
            ConnectionAddr::Tcp(host, port) => Server::Tcp(format!("{host}:{port}")),
            ConnectionAddr::Unix(path) => Server::Unix(path.clone()),
            other => panic!("no proxy for {other:?}"),
        };
        let link = FaultyLink::to(address).await.expect("a port");
        link.count(b"EVALSHA");
        Self { link, credentials: password.unwrap_or_default() }
    }

    pub fn url(&self) -> String {
        format!("redis://{}{}", self.credentials, self.link.addr())
    }

    /// Where it listens, for a client that is no Redis client.
    pub fn host(&self) -> String {
        self.link.addr().to_string()
    }

    pub fn set(&self, link: Link) {
        match link {
            Link::Works => self.link.mend(),
            Link::Stalls => self.link.set(Fault::Stall),
            Link::LosesNextAnswer => self.link.trap(Trap::at_answer()),
            Link::Refuses => self.link.cut(),
        }
    }

    /// How many script calls went through towards the server so far.
    pub fn scripts_run(&self) -> u64 {
        self.link.counted()
    }

    /// Waits until the link has lost the answer that it was set to lose.
    pub async fn answer_lost(&self) {
        self.link.until_sprung().await;
    }
}
