//! A hold is extended once, with all lines of the order, and only while it runs.

use super::steps::{statuses, until_expired};
use super::*;

async fn extend(buyer: &Client, order: &str, body: Value) -> Answer {
    buyer.post(&format!("/api/orders/{order}/extension"), &body).await
}

/// Items whose holds may be extended by these seconds.
async fn items(instance: &Instance, seconds: &[u32]) -> Vec<i64> {
    let mut items = Vec::new();
    for seconds in seconds {
        let item = json!({ "stock": 10, "per_buyer_limit": 4, "extend_seconds": seconds });
        items.push(instance.make_item(item).await);
    }
    items
}

#[tokio::test]
async fn all_lines_of_an_order_are_extended_once() {
    let (shop, instance) = Shop::open_with(|config| {
        config.events.enabled = true;
        config.job.expire_period_ms = 20;
    })
    .await;
    let items = items(&instance, &[100, 60, 500]).await;
    let buyer = instance.buyer(1);
    let made = reserve(&buyer, &[(items[0], 1), (items[1], 2), (items[2], 1)]).await;
    let order = order_id(&made);
    assert_eq!(made.json["extended_seconds"], Value::Null, "{}", made.text);
    let extended = extend(&buyer, &order, json!({})).await.expect_status(200);
    let longer = instant(&extended, "expires_at") - instant(&made, "expires_at");
    assert_eq!(longer, time::Duration::seconds(60), "as long as each item allows");
    assert_eq!(extended.json["extended_seconds"], 60);
    // Once: the second call answers as the first one did.
    for body in [json!({}), json!({ "seconds": 5 })] {
        assert_eq!(extend(&buyer, &order, body).await.json, extended.json);
    }
    let ends = "SELECT COUNT(DISTINCT expires_at, extended_seconds) FROM orders";
    assert_eq!(shop.number(ends).await, 1, "the lines end together");
    // An event has the new end.
    let events = "SELECT payload FROM outbox UNION ALL SELECT payload FROM event_log";
    let events: Vec<String> = shop.read_all(sqlx::query_scalar(events)).await;
    let told = events.iter().filter(|event| event.contains("\"expires_at\"")).count();
    assert_eq!(told, 1, "{events:?}");
    // The units are held until the new end.
    shop.let_holds_pass(301).await;
    let short = order_id(&reserve(&instance.buyer(2), &[(items[0], 1), (items[1], 1)]).await);
    shop.change(sqlx::query("UPDATE orders SET expires_at = UTC_TIMESTAMP(6) WHERE user_id = 2"))
        .await;
    // The sweep that has taken the other one has seen this one.
    until_expired(&shop, &short, 2).await;
    assert_eq!(statuses(&shop, &order).await, ["pending"; 3]);
    shop.let_holds_pass(60).await;
    until_expired(&shop, &order, 3).await;
    assert_eq!(left(&instance, &items).await, [10, 10, 10]);
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn a_single_purchase_is_extended_too_and_then_paid() {
    let (_shop, instance) = Shop::open().await;
    let items = items(&instance, &[60]).await;
    let buyer = instance.buyer(1);
    let made = buyer.buy("mysql-atomic", items[0]).await;
    let order = order_id(&made);
    let extended = extend(&buyer, &order, json!({ "seconds": 30 })).await;
    let longer = instant(&extended, "expires_at") - instant(&made, "expires_at");
    assert_eq!(longer, time::Duration::seconds(30), "{}", extended.text);
    assert_eq!(buyer.step(&order, "payment").await.json["status"], "paid");
    assert_problem(&extend(&buyer, &order, json!({})).await, (409, "order_state_conflict"), "paid");
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn a_hold_is_not_extended_when_it_is_over_or_an_item_forbids_it() {
    // Nothing expires by itself here.
    let (shop, instance) = Shop::open_with(|config| config.job.expire_period_ms = 3_600_000).await;
    let items = items(&instance, &[60, 0]).await;
    let buyer = instance.buyer(1);
    let forbidden = order_id(&reserve(&buyer, &[(items[0], 1), (items[1], 1)]).await);
    extend(&buyer, &forbidden, json!({})).await.expect_problem(409, "hold_not_extendable");
    let order = order_id(&buyer.buy("mysql-atomic", items[0]).await);
    let edit = instance.admin().edit(items[0], json!({ "extend_seconds": 0 })).await;
    assert_eq!(edit.json["extend_seconds"], 0, "{}", edit.text);
    assert_problem(&extend(&buyer, &order, json!({})).await, (409, "hold_not_extendable"), "now");
    instance.admin().edit(items[0], json!({ "extend_seconds": 60 })).await;
    extend(&buyer, &order, json!({ "seconds": 0 })).await.expect_problem(422, "out_of_range");
    let line = format!("{}01", &forbidden[..34]);
    assert_problem(&extend(&buyer, &line, json!({})).await, (404, "order_not_found"), "a line");
    // The hold is over by the database's clock, though no sweep has seen it.
    shop.let_holds_pass(301).await;
    assert_problem(&extend(&buyer, &order, json!({})).await, (409, "hold_over"), "too late");
    assert_eq!(shop.number("SELECT COUNT(extended_seconds) FROM orders").await, 0);
    assert_all_clean(&instance, &items).await;
}

/// Each hold ends at another moment, and is extended about then, while two instances sweep.
#[tokio::test]
async fn an_order_is_extended_or_expires_and_never_both() {
    const ORDERS: i64 = 120;
    const SPACE_MS: i64 = 8;
    let shop = Shop::with(|config| config.job.expire_period_ms = 3).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let item = json!({ "stock": 2 * ORDERS, "extend_seconds": 600 });
    let items = [one.make_item(item.clone()).await, one.make_item(item).await];
    let mut orders = Vec::new();
    for buyer in 1..=ORDERS {
        let client = one.buyer(buyer);
        let made = match buyer % 2 {
            0 => client.buy("mysql-atomic", items[0]).await,
            _ => reserve(&client, &[(items[0], 1), (items[1], 1)]).await,
        };
        orders.push((buyer, order_id(&made)));
    }
    // The first hold ends in half a second, by the database's clock.
    let end = "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) + INTERVAL (500000 + user_id * ?) MICROSECOND";
    shop.change(sqlx::query(end).bind(SPACE_MS * 1_000)).await;
    let begun = tokio::time::Instant::now();
    let extended = orders.iter().map(async |(buyer, order)| {
        // A little before and a little after the end.
        let at = 500 + buyer * SPACE_MS + (buyer % 7 - 4) * 3;
        tokio::time::sleep_until(begun + Duration::from_millis(at.unsigned_abs())).await;
        let instance = if buyer % 3 == 0 { &one } else { &two };
        extend(&instance.buyer(*buyer), order, json!({})).await
    });
    let answers = join_all(extended).await;
    let (mut kept, mut lost) = (0, 0);
    for ((_, order), answer) in orders.iter().zip(&answers) {
        let expected = match answer.brief() {
            (200, _) => "pending",
            (409, "hold_over" | "order_state_conflict") => "expired",
            _ => panic!("{}", answer.text),
        };
        *if expected == "pending" { &mut kept } else { &mut lost } += 1;
        let all = |found: &Vec<String>| found.iter().all(|status| status == expected);
        until(BOUND, || statuses(&shop, order), all).await;
    }
    println!("{kept} extended, {lost} expired");
    let wrong = "SELECT COUNT(*) FROM orders \
         WHERE (status = 'pending') <> (extended_seconds IS NOT NULL)";
    assert_eq!(shop.number(wrong).await, 0);
    assert_all_clean(&one, &items).await;
}

/// MyISAM takes SKIP LOCKED and locks nothing, as some engines do. So orders are extended and paid between the read of
/// the sweep and its write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_has_read_the_old_end_leaves_an_order_that_has_changed() {
    // No other test has these buyers. The sweep comes to them in this order.
    const BUYERS: [i64; 3] = [7_132_001, 7_132_002, 7_132_003];
    let (shop, instance) = Shop::open_with(|config| config.job.expire_period_ms = 20).await;
    let items = items(&instance, &[600, 600]).await;
    let mut orders = Vec::new();
    for buyer in BUYERS {
        let cart = [(items[0], 1), (items[1], 1)];
        orders.push(order_id(&reserve(&instance.buyer(buyer), &cart).await));
    }
    shop.change(sqlx::query("ALTER TABLE orders ENGINE = MyISAM")).await;
    let director = Director::of(&BUYERS[..1]);
    shop.let_holds_pass(301).await;
    let arrival = director.arrival(BUYERS[0], "overdue-read");
    tokio::time::timeout(BOUND, arrival).await.expect("the sweep has read the orders");
    assert_eq!(instance.buyer(BUYERS[0]).step(&orders[0], "payment").await.json["status"], "paid");
    // As an extension that was sent before the end, and took long.
    let extended = format!(
        "UPDATE orders SET expires_at = expires_at + INTERVAL 600 SECOND, extended_seconds = 600 WHERE user_id = {}",
        BUYERS[1]
    );
    shop.change(sqlx::query(&extended)).await;
    drop(director);
    // The state of a row of MyISAM is seen before the transaction is committed, but the stock is not.
    until(BOUND, || left(&instance, &items), |units| *units == [8, 8]).await;
    assert_eq!(statuses(&shop, &orders[0]).await, ["paid"; 2]);
    assert_eq!(statuses(&shop, &orders[1]).await, ["pending"; 2]);
    assert_eq!(statuses(&shop, &orders[2]).await, ["expired"; 2]);
    assert_all_clean(&instance, &items).await;
}
