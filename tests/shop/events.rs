//! Events for other systems: each durable change is delivered at least once, and no other event is.

mod endpoints;
mod filters;
mod held;
mod volume;

use std::cell::Cell;
use std::sync::Mutex;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::post;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::support::prelude::*;
use crate::support::trace_collector::Collector;
use crate::support::webhook_receiver::{Answering, TestReceiver};

/// A shop with events whose webhooks may reach this machine.
async fn shop_with_events() -> Shop {
    Shop::with(|config| {
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 20);
        config.sections.set("events", "private_networks", "127.0.0.1");
        config.sections.set("events", "pause_seconds_max", 1);
        config.sections.set("events", "refusals_max", 3);
        config.job.expire_period_ms = 20;
    })
    .await
}

/// Creates a webhook; answers its id.
async fn subscribe(instance: &Instance, receiver: &TestReceiver) -> i64 {
    subscribe_by(instance, receiver, &json!({ "target": receiver.url() })).await
}

/// Creates a webhook by this request.
async fn subscribe_by(instance: &Instance, receiver: &TestReceiver, body: &Value) -> i64 {
    let created = instance.admin().post("/api/admin/endpoints", body).await.expect_status(201);
    receiver.expect_secret(created.json["secret"].as_str().expect("a secret"));
    created.json["id"].as_i64().expect("an id")
}

/// What the console shows of an endpoint.
async fn endpoint(instance: &Instance, id: i64) -> Value {
    let listed = instance.admin().get("/api/admin/endpoints").await.json;
    let found = listed["endpoints"].as_array().expect("a list").iter().find(|one| one["id"] == id);
    found.cloned().unwrap_or(Value::Null)
}

/// Waits until the endpoint is as wanted, and answers it.
async fn until_endpoint(instance: &Instance, id: i64, is_wanted: impl Fn(&Value) -> bool) -> Value {
    until("the endpoint", || endpoint(instance, id), is_wanted).await
}

/// Each order's statuses in the order in which they were told, doubles left out.
fn told(receiver: &TestReceiver) -> BTreeMap<String, Vec<String>> {
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in receiver.distinct_events() {
        for order in event["data"]["orders"].as_array().expect("orders") {
            let text = |field: &str| order[field].as_str().expect("text").to_owned();
            told.entry(text("id")).or_default().push(text("status"));
        }
    }
    told
}

/// The positions of the events in the order in which they were told, doubles left out.
fn positions(receiver: &TestReceiver) -> Vec<i64> {
    receiver.distinct_events().iter().filter_map(|event| event["position"].as_i64()).collect()
}

/// Sells units of the item, each in an order of its own.
async fn sell(instance: &Instance, item: i64, orders: usize) {
    for _ in 0..orders {
        instance.buyer(1).buy("mysql-atomic", item).await.expect_status(201);
    }
}

#[tokio::test]
async fn every_change_of_an_order_reaches_the_webhook_in_order_and_signed() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({ "stock": 10, "hold_seconds": 900 })).await;
    let mut expected = BTreeMap::new();
    for (buyer, strategy, step) in [
        (1, "mysql-atomic", Some("payment")),
        (2, "mysql-batch", Some("cancellation")),
        (3, "lock-redis", None),
    ] {
        let client = instance.buyer(buyer);
        let bought = client.buy(strategy, item).await;
        let id = order_id(&bought);
        let last = match step {
            Some(step) => {
                let done = client.step(&id, step).await.expect_status(200);
                // A second time nothing changes, so nothing is told.
                client.step(&id, step).await;
                done.json["status"].as_str().expect("a status").to_owned()
            }
            None => "expired".to_owned(),
        };
        expected.insert(id, vec!["pending".to_owned(), last]);
    }
    shop.let_holds_pass(900).await;
    until("all changes", || async { told(&receiver) }, |told| *told == expected).await;
    let event = &receiver.distinct_events()[0];
    assert_eq!((&event["type"], &event["position"]), (&json!("orders.changed"), &json!(1)));
    let order = &event["data"]["orders"][0];
    assert_eq!((&order["item_id"], &order["user_id"]), (&json!(item), &json!(1)));
    assert_eq!((&order["quantity"], &order["amount_cents"]), (&json!(1), &json!(250)));
    let waiting = shop.number("SELECT COUNT(*) FROM outbox").await;
    assert_eq!(waiting, 0, "rows are taken out when they are in the log");
}

#[tokio::test]
async fn a_traced_delivery_names_its_span() {
    let collector = Collector::start().await;
    let mut shop = shop_with_events().await;
    shop.config.traces.endpoint = collector.url().to_owned();
    shop.config.traces.sample_ratio = 1.0;
    shop.config.traces.period_ms = 10;
    let instance = shop.start().await;
    let receiver = TestReceiver::start().await;
    subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({})).await;
    instance.buyer(1).buy("mysql-atomic", item).await;
    eventually("the span of the delivery", || async {
        let told = receiver.traceparents();
        let spans = collector.spans();
        let mut sent = spans.iter().filter(|span| span.name == "POST webhook");
        let name = |span: &Span| {
            format!("00-{}-{}-01", hex::encode(&span.trace_id), hex::encode(&span.span_id))
        };
        sent.any(|span| told.contains(&name(span))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_one_row_and_a_refused_purchase_is_none() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let item = instance.make_item(json!({ "stock": 40 })).await;
    let buyers = (1..=60).map(|buyer| {
        let client = instance.buyer(buyer);
        async move { client.buy("mysql-batch", item).await.status }
    });
    assert_eq!(join_all(buyers).await.into_iter().filter(|status| *status == 201).count(), 40);
    let rows = eventually("all orders in the log", || async {
        let page = instance.admin().get("/api/admin/events").await.json;
        let events = page["events"].as_array().expect("events").clone();
        let orders: usize =
            events.iter().map(|event| event["data"]["orders"].as_array().map_or(0, Vec::len)).sum();
        when(orders == 40, events.len())
    })
    .await;
    assert!(rows < 40, "a row for each transaction, not for each order: {rows}");
}

#[tokio::test]
async fn without_the_setting_nothing_is_written_and_no_endpoint_is_taken() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    sell(&instance, item, 1).await;
    let rows = "SELECT (SELECT COUNT(*) FROM outbox) + (SELECT COUNT(*) FROM event_log)";
    assert_eq!(shop.number(rows).await, 0);
    let body = json!({ "target": "https://shop.example/in" });
    let refused = instance.admin().post("/api/admin/endpoints", &body).await;
    assert_eq!(refused.brief(), (409, "events_off"));
}

#[tokio::test]
async fn a_receiver_that_is_away_gets_everything_later_and_in_order() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    receiver.answer(Answering::Status(503));
    let id = subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({ "stock": 20, "per_buyer_limit": 20 })).await;
    sell(&instance, item, 5).await;
    // More than refusals would be forgiven.
    let seen = until_endpoint(&instance, id, |seen| seen["failures"].as_i64() >= Some(3)).await;
    assert!(seen["last_error"].to_string().contains("503"), "{seen}");
    // Now the answer is lost: the receiver has it, and gets it again.
    receiver.answer(Answering::HangUp);
    until("a lost answer", || async { receiver.hung_up() }, |lost| *lost > 0).await;
    receiver.answer(Answering::Status(204));
    until("all five", || async { told(&receiver) }, |told| told.len() == 5).await;
    assert_eq!(positions(&receiver), [1, 2, 3, 4, 5]);
    let seen = until_endpoint(&instance, id, |seen| seen["delivered"] == 5).await;
    assert_eq!((&seen["failures"], &seen["dead_letters"]), (&json!(0), &json!(0)));
}

/// The status tells that the receiver has the event.
#[tokio::test]
async fn an_answer_whose_body_never_ends_is_one() {
    let mut shop = shop_with_events().await;
    shop.config.sections.set("events", "timeout_ms", 2_000);
    let instance = shop.start().await;
    let receiver = TestReceiver::start().await;
    let body = json!({ "target": format!("{}/endless", receiver.url()) });
    let id = subscribe_by(&instance, &receiver, &body).await;
    let item = instance.make_item(json!({})).await;
    instance.buyer(1).buy("mysql-atomic", item).await.expect_status(201);
    let seen = until("the event", || endpoint(&instance, id), |seen| seen["delivered"] == 1).await;
    assert_eq!(seen["dead_letters"], 0, "{seen}");
    assert_eq!(receiver.times_of_position(1), 1, "it is sent once");
}

/// A row that was damaged stops nothing behind it.
#[tokio::test]
async fn a_damaged_event_becomes_a_dead_letter() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let item = instance.make_item(json!({})).await;
    for buyer in 1..=3 {
        instance.buyer(buyer).buy("mysql-atomic", item).await.expect_status(201);
    }
    instance.until_events(3).await;
    shop.change(sqlx::query("UPDATE event_log SET payload = '{' WHERE position = 2")).await;
    let receiver = TestReceiver::start().await;
    let body = json!({ "target": receiver.url(), "from_start": true });
    let id = subscribe_by(&instance, &receiver, &body).await;
    let seen = until_endpoint(&instance, id, |seen| seen["delivered"] == 3).await;
    assert_eq!(seen["dead_letters"], 1, "{seen}");
    assert_eq!(positions(&receiver), [1, 3]);
}

#[tokio::test]
async fn a_refused_event_becomes_a_dead_letter_and_can_be_replayed() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    let item = instance.make_item(json!({ "stock": 20, "per_buyer_limit": 20 })).await;
    sell(&instance, item, 9).await;
    receiver.answer(Answering::RefusePosition(4));
    let body = json!({ "target": receiver.url(), "from_start": true });
    let id = subscribe_by(&instance, &receiver, &body).await;
    until("all but the refused one", || async { told(&receiver) }, |told| told.len() == 8).await;
    let path = format!("/api/admin/endpoints/{id}/dead-letters");
    let is_one = |seen: &Answer| seen.json["dead_letters"].as_array().map(Vec::len) == Some(1);
    let letters = instance.admin().until(&path, is_one).await.json["dead_letters"].clone();
    assert_eq!(letters[0]["position"], 4);
    assert!(letters[0]["reason"].to_string().contains("422"), "{letters}");
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_events_dead_letters_total 1\n"), "{metrics}");

    receiver.answer(Answering::Status(200));
    let path = format!("/api/admin/endpoints/{id}/replays");
    let out = instance.admin().post(&path, &json!({ "first": 10 })).await;
    assert_eq!(out.brief(), (422, "range_out_of_log"));
    instance.admin().post(&path, &json!({ "first": 3, "last": 4 })).await.expect_status(202);
    until("the ninth order", || async { told(&receiver) }, |told| told.len() == 9).await;
    until("no dead letter", || endpoint(&instance, id), |seen| seen["dead_letters"] == 0).await;
    assert_eq!(receiver.times_of_position(3), 2, "a replay delivers the whole range");
    assert_eq!(receiver.times_of_position(5), 1, "and no more");
}

/// Otherwise a slow receiver's refused event is looked for by one instance after the other, from the beginning.
#[tokio::test]
async fn a_claim_lasts_while_a_refused_event_is_looked_for() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let item = instance.make_item(json!({ "stock": 20, "per_buyer_limit": 20 })).await;
    sell(&instance, item, 4).await;
    shop.until_count("SELECT COUNT(*) FROM event_log", 4).await;
    // Refuses every message, and remembers the end of the claim at each.
    let claims: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&claims);
    let pool = shop.pool.clone();
    let refuse = post(move |_: Bytes| async move {
        let statement = "SELECT CAST(claimed_until AS CHAR) FROM event_endpoints";
        let until: String = sqlx::query_scalar(statement).fetch_one(&pool).await.expect("read");
        seen.lock().expect("no panic").push(until);
        StatusCode::UNPROCESSABLE_ENTITY
    });
    let (addr, _task) = serve_routes(Router::new().route("/in", refuse)).await;
    let body = json!({ "target": format!("http://{addr}/in"), "from_start": true });
    instance.admin().post("/api/admin/endpoints", &body).await.expect_status(201);
    // Four events, two, and one.
    let tries = || async { claims.lock().expect("no panic").clone() };
    let ends = until("three tries", tries, |ends| ends.len() >= 3).await;
    assert!(ends[0] < ends[1] && ends[1] < ends[2], "one claim, prolonged twice: {ends:?}");
}

/// New events that are delivered between two tries of a replay do not forget its refusals, and the next replay follows.
#[tokio::test]
async fn a_refused_replay_ends_in_a_busy_shop() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    let id = subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({ "stock": 9_000, "per_buyer_limit": 9_000 })).await;
    let sold = Cell::new(0);
    let buy = async || {
        sell(&instance, item, 1).await;
        sold.set(sold.get() + 1);
    };
    for _ in 0..4 {
        buy().await;
    }
    eventually("all orders", || async { when(told(&receiver).len() == 4, told(&receiver)) }).await;
    receiver.answer(Answering::RefusePosition(3));
    let path = format!("/api/admin/endpoints/{id}/replays");
    for position in [3, 1] {
        let body = json!({ "first": position, "last": position });
        assert_eq!(instance.admin().post(&path, &body).await.status, 202);
    }
    // Each look sells one more, so there is a new event between any two tries.
    eventually("a dead letter, and the second replay", || async {
        buy().await;
        let seen = endpoint(&instance, id).await;
        let again = receiver.times_of_position(1);
        when(seen["dead_letters"] == 1 && again == 2, (seen, again))
    })
    .await;
    receiver.answer(Answering::Status(200));
    until("every new event", || async { told(&receiver).len() }, |told| *told == sold.get()).await;
}
