//! Event streams are shared out: no single client takes all of them.

use hyper::Method;
use hyper::header::AUTHORIZATION;

use crate::support::h2::{Carried, Http2};
use crate::support::prelude::*;

/// Opens `count` streams of an item over one connection; answers those that were granted.
async fn open_many(
    client: &Http2,
    path: &str,
    count: usize,
) -> Vec<hyper::Response<hyper::body::Incoming>> {
    let mut granted = Vec::new();
    for _ in 0..count {
        let answer = client.open(client.request(Method::GET, path), Carried::Nothing).await;
        if answer.status() == 200 {
            granted.push(answer);
        }
    }
    granted
}

async fn status_of_a_buyers_stream(instance: &Instance, buyer: i64) -> u16 {
    let request = instance.buyer(buyer).request(Method::GET, "/api/orders/events");
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn one_connection_of_a_stranger_leaves_streams_for_buyers() {
    let (_shop, instance) = Shop::open_with(|config| config.live.streams_max = 10).await;
    let item = instance.make_item(json!({})).await;
    let client = Http2::connect(instance.addr).await;
    let path = format!("/api/items/{item}/events");
    let taken = open_many(&client, &path, 20).await;
    let refused = instance.stranger().get(&path).await;
    assert_problem(&refused, (503, "overloaded"), "a stream too many of strangers");
    assert_eq!(status_of_a_buyers_stream(&instance, 1).await, 200, "{} are taken", taken.len());
}

#[tokio::test]
async fn an_address_and_a_user_have_so_many_streams_and_no_more() {
    let (_shop, instance, item) = Shop::selling_with(json!({}), |config| {
        config.limits.loopback_exempt = false;
        config.limits.address_streams_max = 3;
        config.limits.user_streams_max = 2;
    })
    .await;
    let path = format!("/api/items/{item}/events");
    let client = Http2::connect(instance.addr).await;
    let mut taken = open_many(&client, &path, 10).await;
    assert_eq!(taken.len(), 3, "streams of one address over one connection");
    let another = Http2::connect(instance.addr).await;
    let refused = another.ask(another.request(Method::GET, &path), Carried::Nothing).await;
    assert_problem(&refused, (429, "rate_limited"), "a stream too many of one address");
    assert!(refused.headers.contains_key("retry-after"));
    // Whoever is signed in is counted by name, wherever the streams come from and whatever they tell.
    let buyer = format!("Bearer {}", instance.token(1, Role::Buyer));
    let ask = |path: &str| client.request(Method::GET, path).header(AUTHORIZATION, &buyer);
    let of_stock = client.open(ask(&path), Carried::Nothing).await;
    let of_orders = client.open(ask("/api/orders/events"), Carried::Nothing).await;
    assert_eq!((of_stock.status().as_u16(), of_orders.status().as_u16()), (200, 200));
    for path in [path.as_str(), "/api/orders/events"] {
        client.ask(ask(path), Carried::Nothing).await.expect_problem(429, "rate_limited");
    }
    assert_eq!(status_of_a_buyers_stream(&instance, 2).await, 200, "another buyer may open one");
    // A closed stream no longer counts.
    drop(taken.pop());
    let again = || another.open(another.request(Method::GET, &path), Carried::Nothing);
    until(BOUND, again, |answer| answer.status() == 200).await;
}
