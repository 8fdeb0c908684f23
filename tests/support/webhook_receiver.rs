//! A receiver of webhooks that checks signatures, remembers what it got, and misbehaves when told.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

/// How the receiver answers.
#[derive(Clone, Copy, Debug)]
pub enum Answering {
    /// With this status, and it keeps the events if that is a success.
    Status(u16),
    /// Keeps the events and never answers.
    HangUp,
    /// Refuses every message that has the event with this position.
    RefusePosition(i64),
}

#[derive(Default)]
struct Seen {
    secret: String,
    events: Vec<Value>,
    traceparents: Vec<String>,
    covers: Vec<(i64, i64)>,
}

struct Shared {
    answering: Mutex<Answering>,
    seen: Mutex<Seen>,
    requests: AtomicU64,
    hung_up: AtomicU64,
}

/// The receiver.
pub struct TestReceiver {
    shared: Arc<Shared>,
    connections: Arc<AtomicU64>,
    url: String,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl TestReceiver {
    /// Listens on a free port of this machine.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/in", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            answering: Mutex::new(Answering::Status(200)),
            seen: Mutex::default(),
            requests: AtomicU64::new(0),
            hung_up: AtomicU64::new(0),
        });
        let connections = Arc::new(AtomicU64::new(0));
        let router = Router::new()
            .route("/in", post(receive))
            .route("/in/endless", post(receive_without_end))
            .with_state(Arc::clone(&shared));
        let counted = Arc::clone(&connections);
        let listener = listener.tap_io(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let _task = tokio_util::task::AbortOnDropHandle::new(task);
        Self { shared, connections, url, _task }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// From now on every message must be signed with this secret.
    pub fn expect_secret(&self, secret: &str) {
        self.shared.seen.lock().expect("no panic").secret = secret.to_owned();
    }

    pub fn answer(&self, answering: Answering) {
        *self.shared.answering.lock().expect("no panic") = answering;
    }

    /// The events in the order of their first arrival.
    pub fn distinct_events(&self) -> Vec<Value> {
        let seen = self.shared.seen.lock().expect("no panic");
        let mut ids = HashSet::new();
        seen.events.iter().filter(|event| ids.insert(event["id"].to_string())).cloned().collect()
    }

    pub fn times_of_position(&self, position: i64) -> usize {
        let seen = self.shared.seen.lock().expect("no panic");
        seen.events.iter().filter(|event| event["position"] == position).count()
    }

    /// The positions that messages say they cover, in the order of their arrival.
    pub fn covers(&self) -> Vec<(i64, i64)> {
        self.shared.seen.lock().expect("no panic").covers.clone()
    }

    /// The spans that sent messages, as their headers say.
    pub fn traceparents(&self) -> Vec<String> {
        self.shared.seen.lock().expect("no panic").traceparents.clone()
    }

    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub fn hung_up(&self) -> u64 {
        self.shared.hung_up.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let answering = *shared.answering.lock().expect("no panic");
    let hang_up = {
        let mut seen = shared.seen.lock().expect("no panic");
        let parent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        seen.traceparents.extend(parent.map(str::to_owned));
        if !is_genuine(&headers, &body, &seen.secret) {
            return StatusCode::UNAUTHORIZED;
        }
        let message: Value = serde_json::from_slice(&body).expect("JSON");
        let events = message["events"].as_array().expect("events").clone();
        match answering {
            Answering::Status(status) if !(200..300).contains(&status) => {
                return StatusCode::from_u16(status).expect("a status");
            }
            Answering::RefusePosition(position)
                if events.iter().any(|event| event["position"] == position) =>
            {
                return StatusCode::UNPROCESSABLE_ENTITY;
            }
            _ => {}
        }
        seen.events.extend(events);
        let position = |field: &str| message["covers"][field].as_i64();
        seen.covers.extend(position("first").zip(position("last")));
        matches!(answering, Answering::HangUp)
    };
    if hang_up {
        shared.hung_up.fetch_add(1, Ordering::SeqCst);
        // Longer than the sender waits, unless it is told to answer again.
        while matches!(*shared.answering.lock().expect("no panic"), Answering::HangUp) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        return StatusCode::BAD_GATEWAY;
    }
    StatusCode::OK
}

/// Answers with a body that never ends.
async fn receive_without_end(
    state: State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let status = receive(state, headers, body).await;
    let endless = futures::stream::pending::<Result<Bytes, Infallible>>();
    (status, Body::from_stream(endless)).into_response()
}

/// The signature of a message, from what Standard Webhooks says alone.
pub fn sign(secret: &str, id: &str, sent_at: impl Display, body: &[u8]) -> String {
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap_or_default()).expect("base64");
    let mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
    let signed = mac.chain_update(format!("{id}.{sent_at}.")).chain_update(body);
    format!("v1,{}", BASE64.encode(signed.finalize().into_bytes()))
}

/// Whether the headers of a message have its right signature.
pub fn is_genuine(headers: &HeaderMap, body: &[u8], secret: &str) -> bool {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signature = sign(secret, text("webhook-id"), text("webhook-timestamp"), body);
    text("webhook-signature") == signature
}
