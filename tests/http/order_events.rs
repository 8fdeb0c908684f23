//! The stream of one's own orders.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::{BOUND, SOON, eventually, order_id};
use crate::support::event_stream::{Event, Events};
use crate::support::{Client, Shop};

/// How long a try waits for an event before it buys once more.
const PATIENCE: Duration = Duration::from_millis(300);

async fn watch(client: &Client) -> Events {
    Events::open(client.request(Method::GET, "/api/orders/events")).await
}

fn tells(order: &str, status: &str) -> impl Fn(&Event) -> bool {
    move |event| {
        event.name == "order" && event.data["id"] == order && event.data["status"] == status
    }
}

#[tokio::test]
async fn an_owner_hears_of_purchase_payment_and_expiry() {
    let (shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 2 })).await;
    let buyer = instance.buyer(1);
    let mut events = watch(&buyer).await;
    let mut of_another = watch(&instance.buyer(2)).await;
    let order = order_id(&buyer.buy("default", item).await);
    let told = events.seek(SOON, tells(&order, "pending")).await.expect("the purchase is told");
    assert_eq!(told.data, buyer.get(&format!("/api/orders/{order}")).await.json);
    buyer.step(&order, "payment").await;
    events.seek(SOON, tells(&order, "paid")).await.expect("the payment is told");
    let second = order_id(&buyer.buy("default", item).await);
    events.seek(SOON, tells(&second, "pending")).await.expect("the second purchase is told");
    shop.let_holds_pass(301).await;
    events.seek(BOUND, tells(&second, "expired")).await.expect("the expiry is told");
    let nothing = of_another.seek(PATIENCE, |_| true).await;
    assert!(nothing.is_err(), "another's order was told: {nothing:?}");
}

#[tokio::test]
async fn an_owner_hears_of_what_happens_on_another_instance() {
    let shop = Shop::new().await;
    let (here, there) = (shop.start().await, shop.start().await);
    let item = here.make_item(json!({ "stock": 1_000, "per_buyer_limit": 1_000 })).await;
    let buyer = here.buyer(1);
    let mut events = watch(&there.buyer(1)).await;
    // The instances may not have found each other yet: the first events may be lost. Any later one will do: on a busy
    // machine each may come only after the next order was made.
    let started = tokio::time::Instant::now();
    let mut orders = Vec::new();
    let order = loop {
        orders.push(order_id(&buyer.buy("default", item).await));
        let of_any = |event: &Event| orders.iter().any(|order| tells(order, "pending")(event));
        match events.seek(PATIENCE, of_any).await {
            Ok(told) => break told.data["id"].as_str().expect("an id").to_owned(),
            Err(why) => assert!(started.elapsed() < BOUND, "{why}"),
        }
    };
    buyer.step(&order, "payment").await;
    events.seek(SOON, tells(&order, "paid")).await.expect("the payment is told");
    let second = order_id(&buyer.buy("default", item).await);
    events.seek(SOON, tells(&second, "pending")).await.expect("the second purchase is told");
    shop.let_holds_pass(301).await;
    events.seek(BOUND, tells(&second, "expired")).await.expect("the expiry is told");
}

#[tokio::test]
async fn one_stream_more_than_there_is_room_for_is_refused() {
    let (_shop, instance) = Shop::open_with(|config| config.live.streams_max = 2).await;
    let item = instance.make_item(json!({})).await;
    let first = watch(&instance.buyer(1)).await;
    let _second = Events::open(
        instance.stranger().request(Method::GET, &format!("/api/items/{item}/events")),
    )
    .await;
    let refused = instance.buyer(2).get("/api/orders/events").await;
    super::assert_problem(&refused, (503, "overloaded"), "a third stream");
    drop(first);
    let buyer = instance.buyer(2);
    eventually(BOUND, || async {
        let response =
            buyer.request(Method::GET, "/api/orders/events").send().await.expect("an answer");
        super::when(response.status() == 200, response.status())
    })
    .await;
}
