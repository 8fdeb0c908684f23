//! A small payment provider that can misbehave.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, Redirect};
use axum::routing::{get, post};
use seckill::config::Config;
use serde_json::{Value, json};

use crate::support::webhook_receiver::{is_genuine, sign};
use crate::support::{Answer, Client, Instance, serve_routes};

/// The secret that both sides have.
const SECRET: &str = "whsec_c2VjcmV0cyBvZiB0ZXN0cyBhcmUgbG9uZyBlbm91Z2ghIQ==";

#[derive(Default)]
struct Shared {
    refuses: AtomicBool,
    refunds: Mutex<Vec<String>>,
    /// The shop whose buyers pay on the checkout page, and how it answered the messages about them.
    shop: Mutex<Option<SocketAddr>>,
    answers: Mutex<Vec<String>>,
}

/// The provider.
pub struct TestProvider {
    shared: Arc<Shared>,
    addr: SocketAddr,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

/// A message to the shop.
#[derive(Clone)]
pub struct TestMessage {
    id: String,
    sent_at: i64,
    signature: String,
    body: String,
}

impl TestProvider {
    /// Listens for refunds on a free port of this machine.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let router = Router::new()
            .route("/refunds", post(refund))
            .route("/checkout", get(checkout))
            .route("/pay", post(pay))
            .with_state(Arc::clone(&shared));
        let (addr, _task) = serve_routes(router).await;
        Self { shared, addr, _task }
    }

    /// Sets the shop whose buyers pay here, at this address.
    pub fn configure(&self, config: &mut Config, checkout_url: &str) {
        config.sections.set("payment", "provider", "webhook");
        config.sections.set("payment", "checkout_url", checkout_url);
        config.sections.set("payment", "secret", SECRET);
    }

    pub fn refund_url(&self) -> String {
        format!("http://{}/refunds", self.addr)
    }

    /// The address of the checkout page, as a setting of the shop.
    pub fn checkout_url(&self) -> String {
        format!("http://{}/checkout?order={{order}}&cents={{amount_cents}}", self.addr)
    }

    /// Buyers who paid go back to this shop.
    pub fn serve_buyers_of(&self, shop: SocketAddr) {
        *self.shared.shop.lock().expect("no panic") = Some(shop);
    }

    /// How the shop answered the messages that the checkout page caused.
    pub fn answers(&self) -> Vec<String> {
        self.shared.answers.lock().expect("no panic").clone()
    }

    /// Whether refunds are answered with an error from now on.
    pub fn refuse_refunds(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
    }

    /// The payments whose refund was asked for.
    pub fn refunds(&self) -> Vec<String> {
        self.shared.refunds.lock().expect("no panic").clone()
    }

    /// "This payment came for this order."
    pub fn succeeded(&self, id: &str, payment: &str, order: &str, cents: i64) -> TestMessage {
        self.about("payment.succeeded", id, payment, (order, cents))
    }

    /// "This payment went back."
    pub fn refunded(&self, id: &str, payment: &str, order: &str, cents: i64) -> TestMessage {
        self.about("refund.succeeded", id, payment, (order, cents))
    }

    fn about(
        &self,
        kind: &str,
        id: &str,
        payment: &str,
        (order, cents): (&str, i64),
    ) -> TestMessage {
        let body = json!({
            "type": kind, "payment": payment, "order": order, "amount_cents": cents, "method": "card",
        });
        self.message(id, &body.to_string())
    }

    /// Any message, signed.
    pub fn message(&self, id: &str, body: &str) -> TestMessage {
        TestMessage::new(id, body)
    }
}

impl TestMessage {
    fn new(id: &str, body: &str) -> Self {
        let sent_at = time::OffsetDateTime::now_utc().unix_timestamp();
        let (id, body) = (id.to_owned(), body.to_owned());
        Self { signature: sign(SECRET, &id, sent_at, body.as_bytes()), id, sent_at, body }
    }

    pub fn signed_with(&self, secret: &str) -> Self {
        Self {
            signature: sign(secret, &self.id, self.sent_at, self.body.as_bytes()),
            ..self.clone()
        }
    }

    pub fn with_id(&self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self.clone() }
    }

    pub async fn send(&self, instance: &Instance) -> Answer {
        self.send_to(instance.addr).await
    }

    pub async fn send_to(&self, shop: SocketAddr) -> Answer {
        let client = Client::new(shop, None);
        let request = client.request(reqwest::Method::POST, "/api/payments/messages");
        let request = request
            .header("content-type", "application/json")
            .header("webhook-id", &self.id)
            .header("webhook-timestamp", self.sent_at)
            .header("webhook-signature", &self.signature)
            .body(self.body.clone());
        Client::send(request).await
    }
}

type Fields = HashMap<String, String>;

/// The page on which a buyer pays.
async fn checkout(Query(asked): Query<Fields>) -> Html<String> {
    let (order, cents) = (&asked["order"], &asked["cents"]);
    Html(format!(
        "<!doctype html><html lang=\"en\"><title>Pay</title><h1>{cents} cents</h1>\
         <form method=\"post\" action=\"/pay\"><input type=\"hidden\" name=\"order\" value=\"{order}\">\
         <input type=\"hidden\" name=\"cents\" value=\"{cents}\"><button id=\"pay-now\">Pay</button></form>"
    ))
}

/// Takes the money, and tells the shop badly: forged, of the wrong amount, and then right, but twice.
async fn pay(State(shared): State<Arc<Shared>>, body: Bytes) -> Redirect {
    let form = crate::support::identity_provider::form_of(&body);
    let shop = (*shared.shop.lock().expect("no panic")).expect("a shop");
    let (order, cents) = (&form["order"], form["cents"].parse::<i64>().expect("a number"));
    let body = |payment: &str, cents: i64| {
        json!({
            "type": "payment.succeeded", "payment": payment, "order": order, "amount_cents": cents,
        })
        .to_string()
    };
    let right = TestMessage::new("right", &body("p-right", cents));
    let wrong = TestMessage::new("wrong", &body("p-wrong", cents + 1));
    for message in [right.signed_with("whsec_AAAA"), wrong, right.clone(), right] {
        let answer = message.send_to(shop).await;
        let said = answer.json["result"].as_str().unwrap_or(answer.code()).to_owned();
        shared.answers.lock().expect("no panic").push(said);
    }
    Redirect::to(&format!("http://{shop}/order.html?id={order}"))
}

async fn refund(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert!(is_genuine(&headers, &body, SECRET), "the refund is signed");
    if shared.refuses.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let payment = body["payment"].as_str().expect("a payment").to_owned();
    shared.refunds.lock().expect("no panic").push(payment);
    StatusCode::OK
}
