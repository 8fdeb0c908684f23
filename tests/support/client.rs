//! An HTTP client that says what it got instead of failing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::net::SocketAddr;
use std::sync::Once;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::event_stream::Events;
use super::{Instance, eventually, until};

/// How many answers a failure prints, and how much of each.
const RECENT_ANSWERS_MAX: usize = 6;
const RECENT_CHARACTERS_MAX: usize = 400;

thread_local! {
    /// The last answers of this thread's test.
    static RECENT: RefCell<VecDeque<String>> = RefCell::default();
}

/// Lets a test that fails print the last answers that it got.
fn print_recent_answers_on_failure() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            RECENT.with_borrow(|recent| {
                for answer in recent {
                    eprintln!("  answered before: {answer}");
                }
            });
        }));
    });
}

fn remember(path: &str, answer: &Answer) {
    let text: String = answer.text.chars().take(RECENT_CHARACTERS_MAX).collect();
    RECENT.with_borrow_mut(|recent| {
        recent.truncate(RECENT_ANSWERS_MAX - 1);
        recent.push_front(format!("{path}: {} {text}", answer.status));
    });
}

/// Somebody who sends requests to one instance.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// An answer, read to its end.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
    /// The body, or null when it is not JSON.
    pub json: Value,
}

impl Client {
    pub fn new(addr: SocketAddr, token: Option<String>) -> Self {
        Self::of(reqwest::Client::builder(), format!("http://{addr}"), token)
    }

    /// A client whose connections are made in another way.
    pub fn of(builder: reqwest::ClientBuilder, base: String, token: Option<String>) -> Self {
        print_recent_answers_on_failure();
        let builder = builder.no_proxy().redirect(reqwest::redirect::Policy::none());
        Self { http: builder.build().expect("a client"), base, token }
    }

    /// A client with another token on this client's connections.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The token of this client.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// A request with the token, to be changed and sent with [`Client::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Opens a stream of events; it must be granted.
    pub async fn events(&self, path: &str) -> Events {
        Events::open(self.request(Method::GET, path)).await
    }

    /// Waits until the service answers.
    pub async fn until_answered(&self) {
        eventually("the service to answer", || async {
            self.request(Method::GET, "/healthz").send().await.ok().map(drop)
        })
        .await;
    }

    pub async fn send(request: RequestBuilder) -> Answer {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let path = response.url().path().to_owned();
        let text = response.text().await.expect("a whole body");
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        let answer = Answer { status, headers, text, json };
        remember(&path, &answer);
        answer
    }

    /// Sends a request of a shop's program for one guest.
    pub async fn as_guest(
        &self,
        reference: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = self.request(method, path).header("Buyer-Reference", reference);
        if let Some(body) = body {
            request = request.json(body);
        }
        Self::send(request).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        Self::send(self.request(Method::GET, path)).await
    }

    /// Reads a path again and again until the answer is as wanted.
    pub async fn until(&self, path: &str, is_wanted: impl Fn(&Answer) -> bool) -> Answer {
        until(path, || self.get(path), is_wanted).await
    }

    /// Waits until a background job is as wanted, and answers what `/readyz` says of it.
    pub async fn until_job(&self, job: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let ready = self.until("/readyz", |ready| is_wanted(&ready.json["jobs"][job])).await;
        ready.json["jobs"][job].clone()
    }

    /// Waits until the last run of a background job has said this.
    pub async fn until_said(&self, job: &str, words: &str) {
        self.until_job(job, |job| job["said"].to_string().contains(words)).await;
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Self::send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        Self::send(self.request(Method::DELETE, path)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        Self::send(self.request(Method::PATCH, path).json(body)).await
    }

    /// Pays, cancels, extends or returns an order: `payment`, `cancellation`, `extension` or `return`.
    pub async fn step(&self, order: &str, step: &str) -> Answer {
        self.post(&format!("/api/orders/{order}/{step}"), &json!({})).await
    }

    /// Changes an item; for operators.
    pub async fn edit(&self, item: i64, changes: Value) -> Answer {
        self.patch(&format!("/api/admin/items/{item}"), &changes).await
    }

    /// Buys one unit without a key.
    pub async fn buy(&self, strategy: &str, item: i64) -> Answer {
        Self::send(self.request(Method::POST, &purchase_path(strategy, item))).await
    }

    /// Buys one unit without a key, in a task of its own.
    pub fn buying(&self, strategy: &'static str, item: i64) -> JoinHandle<Answer> {
        let buyer = self.clone();
        tokio::spawn(async move { buyer.buy(strategy, item).await })
    }

    /// Buys with a key.
    pub async fn buy_with_key(&self, strategy: &str, item: i64, key: &str) -> Answer {
        let request = self.request(Method::POST, &purchase_path(strategy, item));
        Self::send(request.header("idempotency-key", key)).await
    }

    /// Sends a purchase with a key again and again until the answer is as wanted.
    pub async fn buy_until(
        &self,
        strategy: &str,
        item: i64,
        key: &str,
        is_wanted: impl Fn(&Answer) -> bool,
    ) -> Answer {
        until("the answer", || self.buy_with_key(strategy, item, key), is_wanted).await
    }

    /// Sends a purchase with a key again and again until it is sold.
    pub async fn buy_until_sold(&self, strategy: &str, item: i64, key: &str) -> Answer {
        self.buy_until(strategy, item, key, |told| told.status == 201).await
    }

    /// Buys with a key until the outcome is unknown. A busy machine may use up the time in which a transaction begins:
    /// then nothing has changed, and the purchase is sent again.
    pub async fn buy_until_unknown(&self, strategy: &str, item: i64, key: &str) -> Answer {
        self.buy_until(strategy, item, key, |told| told.code() == "outcome_unknown").await
    }

    /// Sends purchases without a key until one is sold.
    pub async fn until_sold(&self, strategy: &str, item: i64) -> Answer {
        until("a sale", || self.buy(strategy, item), |told| told.status == 201).await
    }
}

impl Client {
    /// What a purchase came to: an answer that it was queued is followed until the ledger has
    /// decided, and then reads as the one that a strategy gives which does not queue.
    pub async fn outcome(&self, answer: Answer) -> Answer {
        if answer.status != 202 {
            return answer;
        }
        let path = answer.headers["location"].to_str().expect("a path").to_owned();
        let order = eventually("a queued order to be decided", || async {
            let order = self.get(&path).await.expect_status(200);
            (order.json["status"] != "queued").then_some(order)
        })
        .await;
        match order.json["status"].as_str() {
            Some("rejected") => {
                Answer { status: 409, json: json!({ "code": "rejected" }), ..order }
            }
            _ => Answer { status: 201, ..order },
        }
    }

    /// Buys one unit without a key and waits for the ledger's decision.
    pub async fn buy_for_good(&self, strategy: &str, item: i64) -> Answer {
        let answer = self.buy(strategy, item).await;
        self.outcome(answer).await
    }
}

impl Debug for Answer {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.status, self.text)
    }
}

impl Answer {
    /// The answer itself, which must have this status.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// The answer itself, which must be a whole problem with this status and code.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Self {
        assert_problem(&self, (status, code), "a problem");
        self
    }

    /// The code of a problem; empty when it is none.
    pub fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// Status and code, to compare with a table.
    pub fn brief(&self) -> (u16, &str) {
        (self.status, self.code())
    }
}

impl Answer {
    /// Asserts that the answer has this status, and that its body has each of these fields.
    #[track_caller]
    pub fn assert_fields(&self, status: u16, fields: Value) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_has(&self.json, fields);
    }
}

/// Asserts that a JSON object has these fields.
#[track_caller]
pub fn assert_has(object: &Value, fields: Value) {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    for (name, value) in fields {
        assert_eq!(object[&name], value, "{name}: {object}");
    }
}

/// Asserts that an answer is a whole problem with this status and code.
#[track_caller]
pub fn assert_problem(answer: &Answer, (status, code): (u16, &str), what: &str) {
    assert_eq!(answer.brief(), (status, code), "{what}: {}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/problem+json", "{what}");
    let body = &answer.json;
    assert_eq!(body["type"], format!("/problems/{code}"), "{what}");
    assert_eq!(body["status"], status, "{what}");
    for field in ["title", "detail"] {
        assert!(body[field].as_str().is_some_and(|text| !text.is_empty()), "{what}: no {field}");
    }
    let outcome = body["outcome"].as_str().unwrap_or_default();
    assert!(["none", "unknown"].contains(&outcome), "{what}: outcome {outcome:?}");
    assert!(body["retryable"].is_boolean(), "{what}: no retryable");
    let request_id = body["request_id"].as_str().expect("a request id");
    assert_eq!(answer.headers["x-request-id"], request_id, "{what}");
}

/// The id of the order in an answer.
#[track_caller]
pub fn order_id(answer: &Answer) -> String {
    assert!((200..300).contains(&answer.status), "no order: {} {}", answer.status, answer.text);
    answer.json["id"].as_str().expect("an order").to_owned()
}

/// Units left of an item, as everyone sees them.
pub async fn available(instance: &Instance, item: i64) -> i64 {
    let answer = instance.stranger().get(&format!("/api/items/{item}")).await;
    answer.json["available"].as_i64().unwrap_or_else(|| panic!("no stock: {}", answer.text))
}

/// The path of a purchase; `strategy` may carry a query.
pub fn purchase_path(strategy: &str, item: i64) -> String {
    match strategy.split_once('?') {
        Some((name, query)) => format!("/api/seckill/{name}/{item}?{query}"),
        None => format!("/api/seckill/{strategy}/{item}"),
    }
}
