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

use crate::support::prelude::*;
pub use crate::support::{BOUND, assert_clean, assert_problem, order_id};

/// What the contract calls "within a second", with room for a busy machine.
pub const SOON: Duration = Duration::from_secs(4);

/// The problem without what differs from request to request.
pub fn apart_from_the_request_id(answer: &Answer) -> Value {
    let mut body = answer.json.clone();
    body.as_object_mut().expect("a problem").remove("request_id");
    body
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
