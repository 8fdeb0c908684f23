//! Payments by a provider that misbehaves: late, twice, wrong amount, wrong order, forged.

mod amounts;
mod free;
mod returns;

use std::sync::Mutex;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

use crate::support::payment_provider::TestMessage;
use crate::support::prelude::*;

/// A shop whose buyers pay at the provider.
async fn shop_of(provider: &TestProvider) -> Shop {
    Shop::with(|config| {
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 20);
        provider
            .configure(config, "https://pay.example/checkout?order={order}&cents={amount_cents}");
        config.sections.set("payment", "refund_url", provider.refund_url());
        config.job.expire_period_ms = 20;
    })
    .await
}

/// Buys one unit; answers the order's id.
async fn buy(instance: &Instance, buyer: i64, item: i64) -> String {
    order_id(&instance.buyer(buyer).buy("mysql-atomic", item).await)
}

async fn status(instance: &Instance, buyer: i64, order: &str) -> Value {
    instance.buyer(buyer).get(&format!("/api/orders/{order}")).await.json["status"].clone()
}

/// Makes the hold of the order run out.
async fn expire(shop: &Shop, instance: &Instance, buyer: i64, order: &str) {
    shop.let_holds_pass(900).await;
    until("an expired order", || status(instance, buyer, order), |seen| seen == "expired").await;
}

/// The payment with this id, as operators see it.
async fn payment(instance: &Instance, id: &str) -> Value {
    let listed = instance.admin().get("/api/admin/payments").await.json;
    let payments = listed["payments"].as_array().expect("a list");
    payments.iter().find(|payment| payment["id"] == id).cloned().unwrap_or(Value::Null)
}

/// Waits until the provider was asked for the refund of a payment.
async fn until_refund_requested(instance: &Instance, id: &str) {
    let is_requested = |seen: &Value| seen["status"] == "refund_requested";
    until("a refund that is asked for", || payment(instance, id), is_requested).await;
}

/// A provider, and an item of a shop whose buyers pay there.
async fn selling(item: Value) -> (TestProvider, Shop, Instance, i64) {
    let provider = TestProvider::start().await;
    let (shop, instance) = shop_of(&provider).await.opened().await;
    let item = instance.make_item(item).await;
    (provider, shop, instance, item)
}

/// Sends a message, which is taken with this result, and without a reason.
async fn take(instance: &Instance, message: &TestMessage, result: &str) {
    message.send(instance).await.assert_fields(200, json!({ "result": result, "reason": null }));
}

/// Sends a message about money that cannot pay its order and has to go back, for this reason.
async fn owe(instance: &Instance, message: &TestMessage, reason: &str) {
    let answer = message.send(instance).await;
    answer.assert_fields(200, json!({ "result": "refund_wanted", "reason": reason }));
}

#[tokio::test]
async fn an_order_is_paid_once_by_the_message_of_the_provider() {
    let (provider, _shop, instance, item) = selling(json!({ "stock": 2 })).await;
    let order = buy(&instance, 1, item).await;
    let path = format!("/api/orders/{order}/payment");
    let asked = instance.buyer(1).post(&path, &json!({})).await;
    let url = format!("https://pay.example/checkout?order={order}&cents=250");
    asked.assert_fields(200, json!({ "status": "pending", "checkout_url": url }));
    assert_eq!(instance.buyer(2).post(&path, &json!({})).await.brief(), (404, "order_not_found"));

    let said = provider.succeeded("m1", "p1", &order, 250);
    let forged = said.signed_with("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(forged.send(&instance).await.brief(), (403, "invalid_signature"));
    let nonsense = provider.message("m4", "{\"type\":\"payment.succeeded\"}");
    assert_eq!(nonsense.send(&instance).await.brief(), (422, "invalid_message"));
    let other = provider.message("m5", "{\"type\":\"payment.created\",\"new\":[1]}");
    take(&instance, &other, "unchanged").await;
    assert_eq!(status(&instance, 1, &order).await, "pending");
    // The first one that is genuine counts, although a forged one had its id.
    take(&instance, &said, "paid").await;
    assert_eq!(status(&instance, 1, &order).await, "paid");
    // The same message, and another message about the same payment.
    take(&instance, &said, "unchanged").await;
    take(&instance, &provider.succeeded("m2", "p1", &order, 250), "unchanged").await;
    let asked = instance.buyer(1).post(&path, &json!({})).await;
    asked.assert_fields(200, json!({ "status": "paid", "checkout_url": null }));
    // A second payment for the order goes back.
    owe(&instance, &provider.succeeded("m3", "p2", &order, 250), "paid_twice").await;
    assert_clean(&instance, item).await;
    // The event of the payment comes from the transaction of the payment.
    instance.until_events(2).await;
    // A provider that uses the id of a message twice says nothing new by it.
    let second = buy(&instance, 2, item).await;
    take(&instance, &provider.succeeded("m1", "p9", &second, 250), "unchanged").await;
    assert_eq!(status(&instance, 2, &second).await, "pending");
    assert_eq!(payment(&instance, "p9").await, Value::Null);
}

#[tokio::test]
async fn many_deliveries_of_one_message_at_once_pay_once() {
    let provider = TestProvider::start().await;
    let (shop, one, two) = shop_of(&provider).await.opened_twice().await;
    let item = one.make_item(json!({ "stock": 2 })).await;
    let order = buy(&one, 1, item).await;
    let said = provider.succeeded("m1", "p1", &order, 250);
    let other = provider.succeeded("m2", "p1", &order, 250);
    let deliveries = (0..20).map(|turn| {
        let instance = if turn % 2 == 0 { &one } else { &two };
        let said = if turn % 3 == 0 { &other } else { &said };
        said.send(instance)
    });
    let answers = join_all(deliveries).await;
    let paid = answers.iter().filter(|answer| answer.json["result"] == "paid").count();
    let results: Vec<_> = answers.iter().map(|answer| &answer.text).collect();
    assert_eq!(paid, 1, "{results:?}");
    assert_eq!(status(&one, 1, &order).await, "paid");
    assert_eq!(shop.number("SELECT COUNT(*) FROM payments").await, 1);
    assert_eq!(payment(&one, "p1").await["status"], "accepted");
}

#[tokio::test]
async fn money_that_cannot_pay_its_order_goes_back_and_is_never_forgotten() {
    let (provider, shop, instance, item) =
        selling(json!({ "stock": 1, "hold_seconds": 900 })).await;
    let late = buy(&instance, 1, item).await;
    expire(&shop, &instance, 1, &late).await;
    let winner = buy(&instance, 2, item).await;
    let unknown = shop_domain::OrderId::generate().to_string();
    provider.refuse_refunds(true);
    for (message, id, order, cents, reason) in [
        ("m1", "p-late", &late, 250, "sold_out"),
        ("m2", "p-cheap", &winner, 249, "wrong_amount"),
        ("m3", "p-unknown", &unknown, 250, "unknown_order"),
        ("m7", "p-text", &"cart 7".to_owned(), 250, "unknown_order"),
    ] {
        owe(&instance, &provider.succeeded(message, id, order, cents), reason).await;
    }
    assert_eq!(status(&instance, 1, &late).await, "expired");
    assert_eq!(status(&instance, 2, &winner).await, "pending");
    instance.buyer(2).step(&winner, "cancellation").await.expect_status(200);
    owe(&instance, &provider.succeeded("m4", "p-cancelled", &winner, 250), "cancelled").await;
    let is_refused =
        |seen: &Value| seen["failures"].as_i64() >= Some(1) && seen["status"] == "refund_wanted";
    until("a refund that is not taken", || payment(&instance, "p-late"), is_refused).await;
    // Of no money, nothing can go back.
    take(&instance, &provider.succeeded("m8", "p-zero", &unknown, 0), "unchanged").await;
    until_metric(&instance.stranger(), "seckill_refunds_open 5").await;
    let counted = ledger::rows::payments::count_open_refunds(&shop.pool, 3).await;
    assert_eq!(counted.expect("read"), 3, "no more are counted");
    // It is told after a restart, too.
    instance.stop().await;
    let instance = shop.start().await;
    provider.refuse_refunds(false);
    for id in ["p-late", "p-cheap", "p-unknown", "p-text", "p-cancelled"] {
        until_refund_requested(&instance, id).await;
        assert!(provider.refunds().contains(&id.to_owned()), "{id}");
    }
    let done = provider.refunded("m5", "p-late", &late, 250);
    take(&instance, &done, "refunded").await;
    take(&instance, &done, "unchanged").await;
    for time in ["the first", "again"] {
        let noted = instance.admin().post("/api/admin/payments/p-cheap/refund", &json!({})).await;
        assert_eq!(noted.status, 204, "{time}: {}", noted.text);
    }
    let log = instance.admin().get("/api/admin/actions").await.text;
    assert_eq!(log.matches("payment_refunded").count(), 1, "a repetition is no action: {log}");
    let none = instance.admin().post("/api/admin/payments/p-none/refund", &json!({})).await;
    assert_eq!(none.brief(), (404, "payment_not_found"));
    assert_eq!(instance.buyer(2).get("/api/admin/payments").await.brief(), (403, "forbidden"));
    let open = instance.admin().get("/api/admin/payments?status=refund_requested&limit=1").await;
    open.assert_fields(200, json!({ "next": "p-cancelled" }));
    assert_eq!(open.json["payments"][0]["id"], "p-cancelled");
    assert_clean(&instance, item).await;
}

/// Otherwise the money goes back twice: a run of the job tells one refund after another, and each may take seconds.
#[tokio::test]
async fn a_refund_that_was_made_by_hand_meanwhile_is_not_told() {
    let provider = TestProvider::start().await;
    let mut shop = shop_of(&provider).await;
    // Refuses all until both are due; then takes the first one, while an operator notes the other one.
    let are_due = Arc::new(AtomicBool::new(false));
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let pool = shop.pool.clone();
    let takes = Arc::clone(&are_due);
    let seen = Arc::clone(&told);
    let take = post(move |Json(asked): Json<Value>| async move {
        if !takes.load(Ordering::SeqCst) {
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
        let id = asked["payment"].as_str().expect("a payment").to_owned();
        let note = "UPDATE payments SET refunded_cents = amount_cents, status = 'refunded' \
             WHERE id <> ? AND status = 'refund_wanted'";
        sqlx::query(note).bind(&id).execute(&pool).await.expect("noted");
        seen.lock().expect("no panic").push(id);
        StatusCode::OK
    });
    let (addr, _task) = serve_routes(Router::new().route("/", take)).await;
    shop.config.sections.set("payment", "refund_url", format!("http://{addr}/"));
    let instance = shop.start().await;
    let unknown = shop_domain::OrderId::generate().to_string();
    for (message, id) in [("m1", "p1"), ("m2", "p2")] {
        owe(&instance, &provider.succeeded(message, id, &unknown, 250), "unknown_order").await;
    }
    until_metric(&instance.stranger(), "seckill_refunds_open 2").await;
    are_due.store(true, Ordering::SeqCst);
    // In one statement, so that one run finds both.
    shop.change(sqlx::query("UPDATE payments SET next_try_at = UTC_TIMESTAMP(6)")).await;
    // The next run counts, so the run that has told the first one is over.
    until_metric(&instance.stranger(), "seckill_refunds_open 1").await;
    let told = told.lock().expect("no panic").clone();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn a_refund_whose_row_cannot_be_read_keeps_no_other_one_back() {
    let (provider, shop, instance, _item) = selling(json!({})).await;
    provider.refuse_refunds(true);
    let unknown = shop_domain::OrderId::generate().to_string();
    for (message, id) in [("m1", "p1"), ("m2", "p2")] {
        owe(&instance, &provider.succeeded(message, id, &unknown, 250), "unknown_order").await;
    }
    // Each run begins with the oldest one that is due.
    let damage = "UPDATE payments SET order_id = 'x', \
         next_try_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY WHERE id = 'p1'";
    shop.change(sqlx::query(damage)).await;
    provider.refuse_refunds(false);
    let told = || async { provider.refunds() };
    until("the other refund", told, |told| told.contains(&"p2".to_owned())).await;
    instance.stranger().until_said("refunds", "order_id").await;
}

/// Each try takes the whole time limit then, and a stop of the service would wait for all of them.
#[tokio::test]
async fn a_provider_that_is_away_is_asked_once_in_a_run() {
    let provider = TestProvider::start().await;
    let mut shop = shop_of(&provider).await;
    shop.config.sections.set("payment", "refund_url", "");
    let by_hand = shop.start().await;
    let unknown = shop_domain::OrderId::generate().to_string();
    for count in 0..4 {
        let said = provider.succeeded(&format!("m{count}"), &format!("p{count}"), &unknown, 250);
        owe(&by_hand, &said, "unknown_order").await;
    }
    // Nobody listens there. A port that was free a moment ago may be another test's by now.
    shop.config.sections.set("payment", "refund_url", "http://127.0.0.1:1/");
    let instance = shop.start().await;
    let has_failed = |seen: &Answer| seen.text.contains("did not take");
    let run = instance.admin().until("/api/admin/health", has_failed).await.text;
    assert!(run.contains("did not take 1 refunds"), "{run}");
}

#[tokio::test]
async fn a_late_payment_takes_a_unit_that_is_left_and_a_refund_may_come_first() {
    let (provider, shop, instance, item) =
        selling(json!({ "stock": 2, "hold_seconds": 900 })).await;
    let late = buy(&instance, 1, item).await;
    expire(&shop, &instance, 1, &late).await;
    // Another order has the limit meanwhile.
    let second = buy(&instance, 1, item).await;
    owe(&instance, &provider.succeeded("m4", "p4", &late, 250), "limit_reached").await;
    assert_eq!(instance.buyer(1).step(&second, "cancellation").await.status, 200);
    take(&instance, &provider.succeeded("m1", "p1", &late, 250), "paid").await;
    // The buyer has the limit with the paid order.
    let other = buy(&instance, 2, item).await;
    take(&instance, &provider.refunded("m2", "p2", &other, 250), "refunded").await;
    take(&instance, &provider.succeeded("m3", "p2", &other, 250), "unchanged").await;
    assert_eq!(status(&instance, 2, &other).await, "pending", "money that went back pays nothing");
    assert_clean(&instance, item).await;
}
