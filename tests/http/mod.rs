//! The HTTP contract: routes, status codes and events, as a client sees them.

mod accept;
mod access;
mod admin_actions;
mod bad_bodies;
mod bad_requests;
mod behind_proxies;
mod book;
mod browser;
mod cors;
mod degraded;
mod documented;
mod empty_bodies;
mod erasure;
mod fuzz;
mod http2;
mod items;
mod keys;
mod ledger;
mod limits;
mod live;
mod look_alikes;
pub mod many_pages;
mod one_line;
mod operator;
mod order_events;
mod orders;
mod outages;
mod over_http2;
mod pages;
mod proxy;
mod raw_requests;
mod room_clocks;
mod room_copies;
mod room_stays;
mod sessions;
mod sign_in;
mod slow_readers;
mod slow_streams;
mod stock_events;
mod stream_limits;
mod stream_sessions;
mod throttling;
pub mod typescript;
mod waiting_room;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Client, Instance};
pub use crate::support::{BOUND, assert_all_clean, assert_clean, eventually, until, when};

/// What the contract calls "within a second", with room for a busy machine.
pub const SOON: Duration = Duration::from_secs(4);
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

/// The problem without what differs from request to request.
pub fn apart_from_the_request_id(answer: &Answer) -> Value {
    let mut body = answer.json.clone();
    body.as_object_mut().expect("a problem").remove("request_id");
    body
}

/// Units left of an item, as everyone sees them.
pub async fn available(instance: &Instance, item: i64) -> i64 {
    let answer = instance.stranger().get(&format!("/api/items/{item}")).await;
    answer.json["available"].as_i64().unwrap_or_else(|| panic!("no stock: {}", answer.text))
}

/// The id of the order in an answer.
#[track_caller]
pub fn order_id(answer: &Answer) -> String {
    assert!((200..300).contains(&answer.status), "no order: {} {}", answer.status, answer.text);
    answer.json["id"].as_str().expect("an order").to_owned()
}

/// A password that may be one.
pub const PASSWORD: &str = "correct horse battery";

/// Asks for an account.
pub async fn sign_up(client: &Client, username: &str, password: &str) -> Answer {
    client.post("/api/users", &json!({ "username": username, "password": password })).await
}

/// Asks for a session.
pub async fn sign_in(client: &Client, username: &str, password: &str) -> Answer {
    client.post("/api/session", &json!({ "username": username, "password": password })).await
}
