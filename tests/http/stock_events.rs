//! The stream of an item: its stock and its state.

use time::Duration;

use super::*;

async fn watch(instance: &Instance, item: i64) -> Events {
    instance.stranger().events(&format!("/api/items/{item}/events")).await
}

fn stock(available: i64) -> impl Fn(&Event) -> bool {
    move |event| event.name == "stock" && event.data["available"] == available
}

fn state(word: &str) -> impl Fn(&Event) -> bool {
    move |event| event.name == "state" && event.data["state"] == word
}

#[tokio::test]
async fn the_stock_falls_on_every_instance_and_comes_back() {
    let (_shop, here, there) = Shop::new().await.opened_twice().await;
    let item = here.make_item(json!({ "stock": 2 })).await;
    let mut streams = [watch(&here, item).await, watch(&there, item).await];
    for events in &mut streams {
        let first = events.seek(SOON, stock(2)).await.expect("the stock at first");
        assert_eq!((&first.data["item_id"], &first.data["total"]), (&json!(item), &json!(2)));
        assert!(first.data["server_time"].is_string());
        let first = events.seek(SOON, state("open")).await.expect("the state at first");
        for field in ["starts_at", "ends_at", "server_time"] {
            assert!(first.data[field].is_string(), "{field} is missing: {}", first.data);
        }
    }
    order_id(&here.buyer(1).buy("default", item).await);
    for events in &mut streams {
        events.seek(SOON, stock(1)).await.expect("one is left");
    }
    let order = order_id(&there.buyer(2).buy("default", item).await);
    for events in &mut streams {
        events.seek(SOON, stock(0)).await.expect("none is left");
        events.seek(SOON, state("sold_out")).await.expect("sold out");
    }
    there.buyer(2).step(&order, "cancellation").await.expect_status(200);
    for events in &mut streams {
        events.seek(SOON, stock(1)).await.expect("one came back");
        events.seek(SOON, state("open")).await.expect("open again");
    }
    // Edits are told, too.
    let [events, _] = &mut streams;
    here.admin().edit(item, json!({ "paused": true })).await;
    events.seek(SOON, |event| event.data["paused"] == true).await.expect("the pause is told");
    here.admin().edit(item, json!({ "stock_delta": 5 })).await;
    let restocked = events.seek(SOON, stock(6)).await.expect("the restock is told");
    assert_eq!(restocked.data["total"], 7);
    here.admin().edit(item, json!({ "ends_at": "2036-01-01T00:00:00Z" })).await;
    let moved = |event: &Event| event.data["ends_at"] == "2036-01-01T00:00:00Z";
    events.seek(SOON, moved).await.expect("the new end is told");
}

#[tokio::test]
async fn the_start_and_the_end_are_told_to_who_waits() {
    let (_shop, instance) = Shop::open().await;
    let now = OffsetDateTime::now_utc();
    let at = |ms: i64| web::problem::rfc3339(now + Duration::milliseconds(ms));
    let item = instance.make_item(json!({ "starts_at": at(1_500), "ends_at": at(3_000) })).await;
    let mut events = watch(&instance, item).await;
    events.seek(SOON, state("upcoming")).await.expect("the state at first");
    let opened = events.seek(BOUND, state("open")).await.expect("the start is told");
    let [told_at, starts_at] =
        ["server_time", "starts_at"].map(|field| opened.data[field].as_str());
    assert!(told_at >= starts_at, "{}", opened.data);
    events.seek(BOUND, state("ended")).await.expect("the end is told");
}
