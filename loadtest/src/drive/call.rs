//! A request of no hurry: built for each call, and not from a template as a purchase of the load.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use serde_json::Value;

use super::Instance;
use super::connection::{Connection, Exchange, Reply};

/// One request.
#[derive(Clone, Copy, Default)]
pub struct Call<'a> {
    /// `GET` if there is none.
    pub method: Option<&'a Method>,
    pub path: &'a str,
    pub token: Option<&'a HeaderValue>,
    /// The idempotency key.
    pub key: Option<&'a str>,
    pub body: Option<&'a Value>,
}

impl Instance {
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
        match (connection, self.request(call)) {
            (Some(connection), Ok(request)) => connection.exchange(request, answer_max).await,
            _ => Exchange::NotSent,
        }
    }

    /// Sends a request over a connection of its own.
    pub async fn call(&self, call: Call<'_>, answer_max: Duration) -> Exchange {
        self.call_over(&mut None, call, answer_max).await
    }

    /// The page at this path, if the answer is 200.
    pub async fn page(&self, path: &str, answer_max: Duration) -> Option<Reply> {
        match self.call(Call { path, ..Call::default() }, answer_max).await {
            Exchange::Answered(reply) if reply.status == 200 => Some(reply),
            _ => None,
        }
    }

    fn request(&self, call: Call<'_>) -> hyper::http::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(call.method.unwrap_or(&Method::GET))
            .uri(call.path)
            .header(HOST, &self.host);
        if let Some(token) = call.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        if call.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = call.body.map(|body| Bytes::from(body.to_string()));
        request.body(Full::new(body.unwrap_or_default()))
    }
}
