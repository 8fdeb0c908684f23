//! A request of the service, and how it is sent to an instance.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::header::HeaderValue;

use super::Instance;
use super::connection::{Connection, Exchange, Reply};
use super::message;

/// One request.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub token: Option<&'a HeaderValue>,
    /// The idempotency key.
    pub key: Option<&'a str>,
    /// JSON.
    pub body: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// A request with nothing but its path.
    pub fn new(method: &'a str, path: &'a str) -> Self {
        Self { method, path, token: None, key: None, body: None }
    }
}

impl Instance {
    /// The instance at an address of this machine.
    pub fn at(address: SocketAddr) -> Self {
        Self {
            url: format!("http://{address}"),
            address,
            host: HeaderValue::from_static("localhost"),
        }
    }

    /// Makes the connection if it is not open. It is `None` when it cannot be made.
    pub async fn connect(&self, connection: &mut Option<Connection>) {
        if !connection.as_ref().is_some_and(Connection::is_open) {
            *connection = Connection::open(self.address).await.ok();
        }
    }

    /// Sends a request over the connection, which is made if it is not open.
    pub async fn call_over(
        &self,
        connection: &mut Option<Connection>,
        call: Call<'_>,
        answer_max: Duration,
    ) -> Exchange {
        self.connect(connection).await;
        match connection {
            Some(connection) => connection.send(&self.render(call), answer_max).await,
            None => Exchange::NotSent,
        }
    }

    /// Sends a request over a connection of its own.
    pub async fn call(&self, call: Call<'_>, answer_max: Duration) -> Exchange {
        self.call_over(&mut None, call, answer_max).await
    }

    /// The page at this path, if the answer is 200.
    pub async fn page(&self, path: &str, answer_max: Duration) -> Option<Reply> {
        match self.call(Call::new("GET", path), answer_max).await {
            Exchange::Answered(reply) if reply.status == 200 => Some(reply),
            _ => None,
        }
    }

    /// The bytes of a request.
    pub fn render(&self, call: Call<'_>) -> Vec<u8> {
        let mut headers = vec![("host", self.host.as_bytes())];
        headers.extend(call.token.map(|token| ("authorization", token.as_bytes())));
        headers.extend(call.key.map(|key| ("idempotency-key", key.as_bytes())));
        headers.extend(call.body.map(|_| ("content-type", "application/json".as_bytes())));
        let body = call.body.unwrap_or_default();
        message::render(call.method, call.path, &headers, body.as_bytes())
    }
}
