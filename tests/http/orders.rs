//! What happens to an order after the purchase: paid, cancelled, expired, paid late.

use time::Duration;

use crate::support::prelude::*;

/// Waits until the order is in the ledger.
async fn wait_for(client: &Client, order: &str, status: &str) -> Value {
    client.until(&format!("/api/orders/{order}"), |seen| seen.json["status"] == status).await.json
}

#[tokio::test]
async fn paying_twice_is_paying_once() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let buyer = instance.buyer(1);
    let bought = buyer.buy("default", item).await;
    let order = order_id(&bought);
    assert_eq!(bought.json["status"], "pending");
    assert_eq!(bought.headers["location"], format!("/api/orders/{order}"));
    let first = buyer.step(&order, "payment").await;
    first.assert_fields(200, json!({ "status": "paid" }));
    assert!(first.json["paid_at"].is_string());
    let second = buyer.step(&order, "payment").await;
    assert_eq!((second.status, &second.json), (200, &first.json));
    assert_eq!(buyer.get(&format!("/api/orders/{order}")).await.json, first.json);
    // A cancellation comes too late.
    let late = buyer.step(&order, "cancellation").await.expect_problem(409, "order_state_conflict");
    assert_eq!(late.json["order_status"], "paid");
    // And a paid order does not expire.
    shop.let_holds_pass(301).await;
    assert_has(&assert_clean(&instance, item).await, json!({ "sold": 1, "available": 9 }));
}

#[tokio::test]
async fn cancelling_twice_gives_back_once() {
    let (_shop, instance) = Shop::open().await;
    for strategy in ["lock-redis", "redis-watch", "mysql-atomic"] {
        let item = instance.make_item(json!({ "per_buyer_limit": 3 })).await;
        let buyer = instance.buyer(1);
        let path = format!("/api/seckill/{strategy}/{item}");
        let order = order_id(&buyer.post(&path, &json!({ "quantity": 3 })).await);
        assert_eq!(available(&instance, item).await, 7);
        let first = buyer.step(&order, "cancellation").await;
        assert_eq!((first.status, first.json["status"].as_str()), (200, Some("cancelled")));
        let second = buyer.step(&order, "cancellation").await;
        assert_eq!((second.status, &second.json), (200, &first.json));
        assert_eq!(available(&instance, item).await, 10);
        buyer.step(&order, "payment").await.expect_problem(409, "order_state_conflict");
        assert_clean(&instance, item).await;
        // The limit is free again.
        assert_eq!(buyer.post(&path, &json!({ "quantity": 3 })).await.status, 201, "{strategy}");
        assert_clean(&instance, item).await;
    }
}

#[tokio::test]
async fn an_unpaid_order_expires_and_gives_back_once() {
    // Both sweep: a unit must not come back twice.
    let (shop, here, there) = Shop::new().await.opened_twice().await;
    let item = here.make_item(json!({ "per_buyer_limit": 2, "hold_seconds": 300 })).await;
    let buyers: Vec<_> = (1..=4).map(|id| here.buyer(id)).collect();
    let mut orders = Vec::new();
    for buyer in &buyers {
        orders.push(order_id(&buyer.buy("lock-redis?store=redis", item).await));
    }
    // Most of the hold is over, and it is not an instance's clock that ends it.
    shop.let_holds_pass(200).await;
    there.clock.shift(Duration::HOUR);
    assert_eq!(available(&here, item).await, 6);
    shop.let_holds_pass(101).await;
    for (buyer, order) in buyers.iter().zip(&orders) {
        wait_for(buyer, order, "expired").await;
        buyer.step(order, "cancellation").await.expect_problem(409, "order_state_conflict");
    }
    assert_eq!(available(&here, item).await, 10);
    assert_has(&assert_clean(&here, item).await, json!({ "held": 0, "redis_available": 10 }));
}

/// Three items whose orders of buyer 1 expire: units are left of the first, those of the second are sold by then, and of
/// the third the buyer has another one.
#[tokio::test]
async fn a_late_payment_is_taken_while_stock_and_limit_are_left() {
    let (shop, instance) = Shop::open().await;
    let (buyer, quick) = (instance.buyer(1), instance.buyer(2));
    let left = instance.make_item(json!({})).await;
    let sold = instance.make_item(json!({ "stock": 1 })).await;
    let again = instance.make_item(json!({})).await;
    let of_left = order_id(&buyer.buy("redis-lua", left).await);
    let of_sold = order_id(&buyer.buy("default", sold).await);
    assert_problem(&quick.buy("default", sold).await, (409, "sold_out"), "the only unit is held");
    let of_again = order_id(&buyer.buy("mysql-version", again).await);
    buyer.buy("mysql-version", again).await.expect_problem(409, "limit_reached");
    shop.let_holds_pass(301).await;
    for order in [&of_left, &of_sold, &of_again] {
        wait_for(&buyer, order, "expired").await;
    }
    assert_eq!(available(&instance, left).await, 10);
    let paid = buyer.step(&of_left, "payment").await;
    paid.assert_fields(200, json!({ "status": "paid" }));
    // Without waiting for the reconciliation.
    assert_eq!(instance.audit(left).await["clean"], true, "the counter was told");
    let counter = shop.counters().key(ItemId::new(left).expect("positive"));
    let counted: Option<i64> = shop.redis(&["HGET", &counter, "b:1"]).await;
    assert_eq!(counted, Some(1), "and the buyer's count");
    assert_eq!(available(&instance, left).await, 9);
    assert_eq!(buyer.step(&of_left, "payment").await.json, paid.json);
    assert_eq!(available(&instance, left).await, 9);
    // It counts against the limit again.
    assert_problem(&buyer.buy("redis-lua", left).await, (409, "limit_reached"), "one more");
    assert_clean(&instance, left).await;

    until(BOUND, || quick.buy("default", sold), |bought| bought.status == 201).await;
    for _ in 0..2 {
        assert_problem(&buyer.step(&of_sold, "payment").await, (409, "sold_out"), "units are sold");
        assert_eq!(buyer.get(&format!("/api/orders/{of_sold}")).await.json["status"], "expired");
    }
    assert_has(&assert_clean(&instance, sold).await, json!({ "available": 0, "held": 1 }));

    let second = order_id(&buyer.buy("mysql-version", again).await);
    buyer.step(&of_again, "payment").await.expect_problem(409, "limit_reached");
    // Once the second is cancelled the first may be paid after all.
    assert_eq!(buyer.step(&second, "cancellation").await.status, 200);
    buyer.step(&of_again, "payment").await.assert_fields(200, json!({ "status": "paid" }));
    assert_has(&assert_clean(&instance, again).await, json!({ "sold": 1, "available": 9 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_payment_cancellation_and_expiry_wins() {
    const ORDERS: i64 = 6;
    const RACERS: usize = 50;
    let shop = Shop::with(|config| config.job.expire_period_ms = 5).await;
    let (here, there) = (shop.start().await, shop.start().await);
    let item = here.make_item(json!({})).await;
    let mut orders = Vec::new();
    for id in 1..=ORDERS {
        orders.push((id, order_id(&here.buyer(id).buy("mysql-atomic", item).await)));
    }
    shop.let_holds_pass(301).await;
    let mut running = Vec::new();
    for racer in 0..RACERS {
        for (id, order) in orders.clone() {
            let client = if racer % 4 < 2 { here.buyer(id) } else { there.buyer(id) };
            let step_name = if racer % 2 == 0 { "payment" } else { "cancellation" };
            // The racers of some orders come before the sweep, those of others after it.
            let head_start = std::time::Duration::from_millis(id.unsigned_abs() * 3);
            let race = async move {
                tokio::time::sleep(head_start).await;
                // Some of these parallel requests may be told to try again: then nothing has changed.
                eventually(BOUND, || async {
                    let answer = client.step(&order, step_name).await;
                    if answer.json["retryable"] == true { Err(answer.text) } else { Ok(answer) }
                })
                .await
            };
            running.push((id, step_name, tokio::spawn(race)));
        }
    }
    let mut winners: Vec<Vec<&str>> = vec![Vec::new(); usize::try_from(ORDERS).expect("few") + 1];
    for (id, step_name, race) in running {
        let answer = race.await.expect("no panic");
        match answer.status {
            200 => winners[usize::try_from(id).expect("few")].push(step_name),
            _ => assert_problem(&answer, (409, "order_state_conflict"), step_name),
        }
    }
    for id in 1..=ORDERS {
        let listed = here.buyer(id).get("/api/orders").await.json;
        let status = listed["orders"][0]["status"].as_str().expect("one order").to_owned();
        let winner = match status.as_str() {
            "paid" => "payment",
            "cancelled" => "cancellation",
            other => panic!("a payment came after every other step, and yet it is {other}"),
        };
        let won = &winners[usize::try_from(id).expect("few")];
        assert!(!won.is_empty() && won.iter().all(|step| *step == winner), "{status}, but {won:?}");
    }
    assert_clean(&here, item).await;
}

#[tokio::test]
async fn orders_are_listed_newest_first_page_by_page() {
    let (_shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let mut bought = Vec::new();
    for _ in 0..5 {
        bought.push(order_id(&buyer.buy("mysql-atomic", item).await));
    }
    order_id(&instance.buyer(2).buy("mysql-atomic", item).await);
    bought.reverse();
    let (mut listed, mut pages) = (Vec::new(), Vec::new());
    let mut path = "/api/orders?limit=2".to_owned();
    loop {
        let page = buyer.get(&path).await.json;
        let orders = page["orders"].as_array().expect("a page");
        pages.push(orders.len());
        listed.extend(orders.iter().map(|order| order["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/orders?limit=2&before={next}");
    }
    assert_eq!((pages, listed), (vec![2, 2, 1], bought.clone()));
    let whole = buyer.get("/api/orders").await.json;
    assert_eq!((whole["orders"].as_array().map(Vec::len), &whole["next"]), (Some(5), &Value::Null));
    // The last page is known as such even when it is full.
    let full = buyer.get("/api/orders?limit=5").await.json;
    assert_eq!((full["orders"].as_array().map(Vec::len), &full["next"]), (Some(5), &Value::Null));
    let order = &whole["orders"][0];
    let fields = "id item_id user_id quantity amount_cents status strategy created_at expires_at";
    for field in fields.split(' ') {
        assert!(!order[field].is_null(), "{field} is missing: {order}");
    }
    for field in ["fence", "paid_at"] {
        assert!(order.get(field).is_some(), "{field} is missing: {order}");
    }
}
