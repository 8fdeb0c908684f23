//! A client beside the purchases: reads orders, pays and cancels them, restocks, and writes down what
//! each answer showed and when.
//!
//! It asks another instance each time, so that what one instance has answered is compared with what
//! the next one says.

use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
use serde_json::{Value, json};

use super::call::Call;
use super::connection::{Connection, Exchange, Reply};
use super::{Instance, micros_since};
use ledger_audit::{History, MISSING, SeenList, SeenOrder, SentRestock};

/// Orders of a list: the newest ones.
const LIST_MAX: u32 = 20;

/// An observer and what it has seen.
pub struct Observer {
    instances: Vec<Instance>,
    connections: Vec<Option<Connection>>,
    /// The instance that is asked next.
    next: usize,
    /// The start of its clock.
    base: Instant,
    answer_max: Duration,
    /// What it has seen, in microseconds since the start of its clock.
    pub history: History,
}

/// When a request was sent, and when its answer was there.
#[derive(Clone, Copy)]
struct When {
    sent_at_us: u64,
    answered_at_us: u64,
}

impl Observer {
    /// An observer whose clock starts at `base`, and that waits for an answer at most `answer_max`.
    pub fn new(instances: Vec<Instance>, base: Instant, answer_max: Duration) -> Self {
        assert!(!instances.is_empty(), "a reader needs an instance to ask");
        let connections = instances.iter().map(|_| None).collect();
        Self { instances, connections, next: 0, base, answer_max, history: History::default() }
    }

    /// Reads one order.
    pub async fn order(&mut self, token: &HeaderValue, id: &str) {
        let path = format!("/api/orders/{id}");
        let (reply, when) = self.ask("GET", &path, token, None).await;
        match reply {
            Some(reply) if reply.status == 404 => self.saw(id, MISSING, when),
            Some(reply) => self.saw_order(&reply, when),
            None => {}
        }
    }

    /// Reads the list of a buyer's newest orders.
    pub async fn list(&mut self, buyer: i64, token: &HeaderValue) {
        let path = format!("/api/orders?limit={LIST_MAX}");
        let (reply, when) = self.ask("GET", &path, token, None).await;
        let Some(reply) = reply.filter(|reply| reply.status == 200) else { return };
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let Some(orders) = body["orders"].as_array() else { return };
        let mut ids = Vec::with_capacity(orders.len());
        for order in orders {
            let (Some(id), Some(status)) = (order["id"].as_str(), order["status"].as_str()) else {
                return;
            };
            self.saw(id, status, when);
            ids.push(id.to_owned());
        }
        // The orders of a server that is away are missing, and the list says so.
        if body["incomplete"].as_bool() == Some(true) {
            return;
        }
        let back_to = body["next"].as_str().map(str::to_owned);
        let When { sent_at_us, answered_at_us } = when;
        let list = SeenList { buyer, orders: ids, back_to, sent_at_us, answered_at_us };
        self.history.lists.push(list);
    }

    /// Pays an order; whether it is paid.
    pub async fn pay(&mut self, token: &HeaderValue, id: &str) -> bool {
        self.step(token, &format!("/api/orders/{id}/payment")).await
    }

    /// Cancels an order; whether it is cancelled.
    pub async fn cancel(&mut self, token: &HeaderValue, id: &str) -> bool {
        self.step(token, &format!("/api/orders/{id}/cancellation")).await
    }

    /// Adds units to a sale, or takes them out; whether it was done.
    pub async fn restock(&mut self, operator: &HeaderValue, item: i64, units: i64) -> bool {
        let path = format!("/api/admin/items/{item}");
        let body = json!({ "stock_delta": units });
        let (reply, when) = self.ask("PATCH", &path, operator, Some(&body)).await;
        let is_done = reply.is_some_and(|reply| reply.status == 200);
        let accepted_at_us = is_done.then_some(when.answered_at_us);
        let sent_at_us = when.sent_at_us;
        self.history.restocks.push(SentRestock { units, sent_at_us, accepted_at_us });
        is_done
    }

    async fn step(&mut self, token: &HeaderValue, path: &str) -> bool {
        let (reply, when) = self.ask("POST", path, token, Some(&json!({}))).await;
        let Some(reply) = reply.filter(|reply| reply.status == 200) else { return false };
        self.saw_order(&reply, when);
        true
    }

    fn saw_order(&mut self, reply: &Reply, when: When) {
        let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        if let (200, Some(id), Some(status)) =
            (reply.status, body["id"].as_str(), body["status"].as_str())
        {
            self.saw(id, status, when);
        }
    }

    fn saw(&mut self, id: &str, status: &str, when: When) {
        let When { sent_at_us, answered_at_us } = when;
        let id = id.to_owned();
        let status = status.to_owned();
        self.history.orders.push(SeenOrder { id, status, sent_at_us, answered_at_us });
    }

    /// One question to the next instance. No reply when the instance does not answer.
    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &HeaderValue,
        body: Option<&Value>,
    ) -> (Option<Reply>, When) {
        let index = self.next;
        self.next = (index + 1) % self.instances.len();
        let body = body.map(Value::to_string);
        let call = Call { token: Some(token), body: body.as_deref(), ..Call::new(method, path) };
        let instance = &self.instances[index];
        let connection = &mut self.connections[index];
        // Before the clock is read: to connect is not to send.
        instance.connect(connection).await;
        let sent_at_us = micros_since(self.base, Instant::now());
        let reply = match instance.call_over(connection, call, self.answer_max).await {
            Exchange::Answered(reply) => Some(reply),
            _ => None,
        };
        let answered_at_us = micros_since(self.base, Instant::now()) + 1;
        (reply, When { sent_at_us, answered_at_us })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// The lists that were written down after an answer.
    async fn lists_after(body: &str) -> Vec<SeenList> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let length = stream.read(&mut [0; 1024]).await.expect("a request");
            assert!(length > 0, "a request was expected");
            stream.write_all(answer.as_bytes()).await.expect("written");
        });
        let instances = vec![Instance::at(address)];
        let mut observer = Observer::new(instances, Instant::now(), Duration::from_secs(5));
        observer.list(1, &HeaderValue::from_static("Bearer token")).await;
        observer.history.lists
    }

    #[tokio::test]
    async fn a_list_that_is_incomplete_is_not_written_down() {
        assert_eq!(lists_after(r#"{"orders":[]}"#).await.len(), 1);
        assert!(lists_after(r#"{"orders":[],"incomplete":true}"#).await.is_empty());
    }
}
