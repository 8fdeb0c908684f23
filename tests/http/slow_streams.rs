//! Clients of HTTP/2 that do not open the windows of their streams: the connection can be written, and the streams
//! cannot.

use http_body_util::BodyExt;
use hyper::{Method, StatusCode};
use loadtest::process::resident_mib_max;

use crate::ledger::draw::{drawn_item, insert_entries};
use crate::support::crowd::metric;
use crate::support::h2::{Carried, Http2, read};
use crate::support::prelude::*;

/// More bytes than a connection may hold, in many streams.
const MANY: usize = 40;
/// A large file.
const LARGE: &str = "/docs/swagger-ui-bundle.js";

async fn dropped(instance: &Instance) -> f64 {
    metric(instance, "seckill_http_slow_readers_dropped_total").await
}

/// Answers that are large, small, and written bit by bit. All of them end, whatever was taken of them; a stream that is
/// read, on the same connection, does not.
#[tokio::test]
async fn a_stream_that_takes_nothing_is_reset_and_its_connection_goes_on() {
    let (_shop, instance) = Shop::open_with(|config| config.http.write_timeout_ms = 2_000).await;
    let client = Http2::connect_with_window(instance.addr, 1_000).await;
    let mut stalled = Vec::new();
    for path in [LARGE, "/", "/api/strategies", "/api/openapi.json"] {
        let answer = client.open(client.request(Method::GET, path), Carried::Nothing).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        stalled.push((path, answer.into_body()));
    }
    until(BOUND, || dropped(&instance), |dropped| *dropped >= stalled.len() as f64).await;
    for (path, body) in stalled {
        let read = tokio::time::timeout(BOUND, body.collect()).await.expect("it is reset");
        assert!(read.is_err(), "{path}: its end was sent");
    }
    // By a thousand bytes at a time, a stream that is read gets everything.
    for path in ["/", "/api/strategies"] {
        let read = client.ask(client.request(Method::GET, path), Carried::Nothing).await;
        let whole = instance.stranger().get(path).await;
        assert_eq!((read.status, read.text), (200, whole.text), "{path}");
    }
    assert_eq!(dropped(&instance).await, 4.0, "nobody else");
}

/// A connection holds so much, whatever it opens; what its streams give back can be had again.
#[tokio::test]
async fn a_connection_holds_no_more_of_large_answers_than_it_may() {
    let (_shop, instance) = Shop::open().await;
    let client = Http2::connect_with_window(instance.addr, 1_000).await;
    let large = || client.open(client.request(Method::GET, LARGE), Carried::Nothing);
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..MANY {
        let answer = large().await;
        match answer.status() {
            StatusCode::OK => held.push(answer),
            _ => refused.push(answer),
        }
    }
    let length = |answer: &hyper::Response<_>| -> u64 {
        let text = answer.headers()["content-length"].to_str().expect("digits");
        text.parse().expect("a number")
    };
    let bytes: u64 = held.iter().map(length).sum();
    assert!((1..=16 << 20).contains(&bytes), "{} streams hold {bytes} bytes", held.len());
    let answer = read(refused.pop().expect("a refusal")).await;
    assert_problem(&answer, (503, "overloaded"), "too many bytes");
    // Small answers go on, here, and large ones elsewhere.
    client.ask(client.request(Method::GET, "/healthz"), Carried::Nothing).await.expect_status(200);
    assert_eq!(instance.stranger().get(LARGE).await.status, 200);
    drop(held);
    until(BOUND, large, |answer| answer.status() == StatusCode::OK).await;
}

/// Entries of a published list of three megabytes, and the streams of one connection that ask for it and take nothing.
const ENTRIES: i64 = 40_000;
const STREAMS: usize = 100;
/// A fifth of what the lists of all streams would take, and several times what their first pages take.
const GROWTH_MIB_MAX: f64 = 64.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_a_long_list_that_take_nothing_hold_a_page_each() {
    let (shop, instance) = Shop::open().await;
    let item = drawn_item(&instance, 1, 3_600).await;
    insert_entries(&shop.pool, item, ENTRIES).await;
    let publish = "UPDATE draws SET listed_at = UTC_TIMESTAMP(6), entries = 40000, head = 'one line\n', \
                   beacon_signature = 'one', drawn_at = UTC_TIMESTAMP(6) WHERE item_id = ?";
    shop.change(sqlx::query(publish).bind(item)).await;
    let addr = free_addr();
    let process = serve(&shop, &addr, &[]).await;
    let pid = process.id().expect("it runs");
    let addr = addr.parse().expect("an address");
    let list = format!("/api/items/{item}/draw/entries");
    let whole = Client::new(addr, None).get(&list).await;
    // Behind eight lines of rules, one of the head and one of the beacon.
    assert_eq!(whole.text.lines().count(), 10 + usize::try_from(ENTRIES).expect("a count"));

    let memory = || resident_mib_max(pid).expect("it runs");
    let before = memory();
    let client = Http2::connect_with_window(addr, 0).await;
    let mut stalled = Vec::new();
    for number in 0..STREAMS {
        let answer = client.open(client.request(Method::GET, &list), Carried::Nothing).await;
        assert_eq!(answer.status(), StatusCode::OK, "stream {number}");
        stalled.push(answer.into_body());
    }
    let grown = memory() - before;
    assert!(grown < GROWTH_MIB_MAX, "{STREAMS} streams took {grown} MiB");
    drop(stalled);
}
