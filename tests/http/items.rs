//! Items: what the operator edits, and when every instance goes by it.

use time::Duration;

use super::*;
use crate::support::crowd::metric;

async fn find(instance: &Instance, item: i64) -> Value {
    instance.stranger().get(&format!("/api/items/{item}")).await.json
}

async fn edit(instance: &Instance, item: i64, changes: Value) -> Answer {
    instance.admin().edit(item, changes).await
}

async fn edit_if(instance: &Instance, item: i64, tag: &str, changes: Value) -> Answer {
    let request = instance.admin().request(Method::PATCH, &format!("/api/admin/items/{item}"));
    Client::send(request.header("if-match", tag).json(&changes)).await
}

/// Buys until the answer is as wanted: how long an instance may still go by what was before.
async fn buy_until(instance: &Instance, item: i64, wanted: (u16, &str)) -> Answer {
    let buyer = instance.buyer(1);
    until(SOON, || buyer.buy("default", item), |answer| answer.brief() == wanted).await
}

#[tokio::test]
async fn an_item_reads_back_as_it_was_created_and_may_last_until_the_year_9999() {
    let (_shop, instance) = Shop::open().await;
    let body = item_body(json!({
        "name": "  Lamp ’24 — <b>bright</b>  ", "description": "Two\nlines", "image_url": "/img/lamp.svg",
        "starts_at": "2026-11-11T12:00:00+01:00", "ends_at": "2036-11-11T11:00:00.5Z", "per_buyer_limit": 3,
        "hold_seconds": 60, "strategy": "redis-watch", "kind": "shop",
    }));
    let made = instance.admin().post("/api/admin/items", &body).await;
    let expected = json!({
        "name": "Lamp ’24 — <b>bright</b>", "description": "Two\nlines", "image_url": "/img/lamp.svg",
        "price_cents": 250, "total": 10, "available": 10, "starts_at": "2026-11-11T11:00:00Z",
        "ends_at": "2036-11-11T11:00:00.5Z", "per_buyer_limit": 3, "hold_seconds": 60, "strategy": "redis-watch",
        "kind": "shop", "arbiter": "on", "paused": false,
    });
    made.assert_fields(201, expected);
    let mut found = find(&instance, made.json["id"].as_i64().expect("an id")).await;
    found["server_time"] = made.json["server_time"].clone();
    assert_eq!(found, made.json);
    // What is left out has the documented default.
    let plain = instance.make_item(json!({})).await;
    let plain = instance.stranger().get(&format!("/api/items/{plain}")).await;
    let defaults = json!({
        "description": "", "image_url": null, "per_buyer_limit": 1, "hold_seconds": 300, "strategy": "lock-redis",
        "kind": "lab",
    });
    plain.assert_fields(200, defaults);
    // A sale may last until the year 9999.
    for ends_at in ["2038-01-19T03:14:08Z", "2126-01-01T00:00:00Z", "9999-12-31T23:59:59Z"] {
        let item = instance.make_item(json!({ "ends_at": ends_at })).await;
        assert_eq!(find(&instance, item).await["ends_at"], ends_at);
        let later = json!({ "starts_at": "2037-01-01T00:00:00Z", "ends_at": ends_at });
        edit(&instance, item, later).await.assert_fields(200, json!({ "ends_at": ends_at }));
    }
}

#[tokio::test]
async fn the_list_shows_the_shop_and_not_the_lab() {
    let (_shop, instance, lab) = Shop::selling(json!({})).await;
    let ending = async |day: &str| {
        let ends_at = format!("2036-01-{day}T00:00:00Z");
        instance.make_item(json!({ "kind": "shop", "ends_at": ends_at })).await
    };
    let later = ending("02").await;
    let sooner = ending("01").await;
    let listed = instance.stranger().get("/api/items").await.expect_status(200);
    assert!(listed.json["server_time"].is_string());
    let items = listed.json["items"].as_array().expect("items").iter();
    let ids: Vec<_> = items.map(|item| item["id"].as_i64()).collect();
    assert_eq!(ids, [Some(sooner), Some(later)]);
    // A lab item is found by its id, although no list has it.
    assert_eq!(find(&instance, lab).await["kind"], "lab");
}

#[tokio::test]
async fn the_state_follows_the_clock_and_the_stock() {
    let (_shop, instance) = Shop::open().await;
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).expect("a whole second");
    let at = |hours: i64| web::problem::rfc3339(now + Duration::hours(hours));
    let window = json!({ "starts_at": at(1), "ends_at": at(3), "stock": 1 });
    let item = instance.make_item(window).await;
    assert_eq!(find(&instance, item).await["state"], "upcoming");
    let early = instance.buyer(1).buy("default", item).await;
    assert_problem(&early, (409, "sale_not_started"), "before the start");
    early.assert_fields(409, json!({ "starts_at": at(1) }));
    assert!(early.json["server_time"].is_string(), "{}", early.text);
    // A second beyond, since the clock that the window was made from is a moment behind.
    instance.clock.shift(Duration::HOUR + Duration::SECOND);
    assert_eq!(find(&instance, item).await["state"], "open");
    let order = order_id(&buy_until(&instance, item, (201, "")).await);
    assert_eq!(find(&instance, item).await["state"], "sold_out");
    instance.buyer(2).buy("default", item).await.expect_problem(409, "sold_out");
    instance.buyer(1).step(&order, "payment").await.expect_status(200);
    instance.clock.shift(Duration::HOUR * 2);
    assert_eq!(find(&instance, item).await["state"], "ended");
    instance.buyer(3).buy("default", item).await.expect_problem(409, "sale_ended");
    // Paying and looking are still possible after the end.
    assert_eq!(instance.buyer(1).get(&format!("/api/orders/{order}")).await.json["status"], "paid");
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn a_strategy_a_pause_and_a_new_schedule_reach_every_instance() {
    let (_shop, here, there) = Shop::new().await.opened_twice().await;
    let item = here
        .make_item(json!({ "stock": 100_000, "per_buyer_limit": 100_000, "kind": "shop" }))
        .await;
    for strategy in ["mysql-atomic", "redis-watch", "mysql-version", "lock-redis"] {
        let edited = edit(&here, item, json!({ "strategy": strategy })).await;
        assert_eq!((edited.status, edited.json["strategy"].as_str()), (200, Some(strategy)));
        for instance in [&here, &there] {
            let buyer = instance.buyer(1);
            let by_it =
                |bought: &Answer| bought.status == 201 && bought.json["strategy"] == strategy;
            until(SOON, || buyer.buy("default", item), by_it).await;
        }
    }
    let unsafe_one = edit(&here, item, json!({ "strategy": "mysql-naive" })).await;
    assert_problem(&unsafe_one, (403, "unsafe_strategy"), "a control on a shop item");
    buy_until(&there, item, (201, "")).await;
    assert_eq!(edit(&here, item, json!({ "paused": true })).await.json["paused"], true);
    for instance in [&here, &there] {
        buy_until(instance, item, (409, "sale_paused")).await.expect_problem(409, "sale_paused");
        // Once it is known it stays known.
        assert_eq!(instance.buyer(2).buy("mysql-atomic", item).await.brief(), (409, "sale_paused"));
    }
    edit(&here, item, json!({ "paused": false })).await;
    buy_until(&there, item, (201, "")).await;
    let now = OffsetDateTime::now_utc();
    let later = web::problem::rfc3339(now + Duration::HOUR);
    edit(&here, item, json!({ "starts_at": later })).await;
    buy_until(&there, item, (409, "sale_not_started")).await;
    let earlier = web::problem::rfc3339(now - Duration::HOUR);
    let just_now = web::problem::rfc3339(now - Duration::MINUTE);
    edit(&here, item, json!({ "starts_at": earlier, "ends_at": just_now })).await;
    buy_until(&there, item, (409, "sale_ended")).await;
    assert_clean(&here, item).await;
}

#[tokio::test]
async fn a_restock_reopens_a_sold_out_item_everywhere() {
    let (_shop, here, there) = Shop::new().await.opened_twice().await;
    for strategy in ["lock-redis", "redis-watch"] {
        let item =
            here.make_item(json!({ "stock": 1, "per_buyer_limit": 9, "strategy": strategy })).await;
        assert_eq!(here.buyer(1).buy("default", item).await.status, 201);
        for instance in [&here, &there] {
            let second = instance.buyer(2).buy("default", item).await;
            assert_problem(&second, (409, "sold_out"), strategy);
        }
        let edited = edit(&here, item, json!({ "stock_delta": 4 })).await;
        assert_eq!((&edited.json["total"], &edited.json["available"]), (&json!(5), &json!(4)));
        for instance in [&there, &here] {
            buy_until(instance, item, (201, "")).await;
        }
        assert_eq!(assert_clean(&here, item).await["held"], 3, "{strategy}");
    }
}

#[tokio::test]
async fn units_that_come_back_and_nothing_else_end_the_memory_of_a_sold_out_item() {
    // Nobody looks again by itself for as long as this test runs.
    let (shop, instance) = Shop::open_with(|config| config.purchase.sold_out_ms = 3_600_000).await;
    let item = instance.make_item(json!({ "stock": 1 })).await;
    let buy = async |id: i64| instance.buyer(id).buy("mysql-atomic", item).await;
    let sold_out = async |what: &str| {
        for id in [98, 99] {
            assert_problem(&buy(id).await, (409, "sold_out"), what);
        }
    };
    let first = order_id(&buy(1).await);
    sold_out("the only unit is held").await;
    assert_eq!(instance.buyer(1).step(&first, "cancellation").await.status, 200);
    let second = buy(2).await.expect_status(201);
    sold_out("it is held again").await;
    // Who has nothing to give back sends no buyer to the ledger.
    let refused_from_memory =
        async || metric(&instance, "seckill_sold_out_from_memory_total").await;
    let before = refused_from_memory().await;
    let again = instance.buyer(1).step(&first, "cancellation").await;
    assert_eq!(again.status, 200, "a repetition");
    let left = instance.buyer(4).delete(&format!("/api/items/{item}/waiting")).await;
    assert_eq!(left.status, 204, "a buyer who does not wait");
    assert_problem(&buy(97).await, (409, "sold_out"), "it is still held");
    assert!(refused_from_memory().await > before, "the ledger was asked again");
    assert_eq!(edit(&instance, item, json!({ "stock_delta": 1 })).await.status, 200);
    buy(3).await.expect_status(201);
    sold_out("both are held").await;
    let end = "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = ?";
    shop.change(sqlx::query(end).bind(order_id(&second))).await;
    until(BOUND, || buy(4), |fourth| fourth.status == 201).await;
    let from_memory = refused_from_memory().await;
    assert!(from_memory >= 4.0, "turned away from memory: {from_memory}");
    assert_clean(&instance, item).await;
}

/// A page gives up after a while: the sale, its counters and its buyers must not depend on that.
#[tokio::test]
async fn an_edit_goes_on_when_its_operator_has_gone() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 1 })).await;
    let held = hold_stock_row(&shop.pool, item).await;
    let admin = instance.admin();
    let restock =
        tokio::spawn(async move { admin.edit(item, json!({ "stock_delta": 5 })).await.status });
    until_running(&shop.pool, "%stock%", 1).await;
    restock.abort();
    assert!(restock.await.is_err_and(|ended| ended.is_cancelled()), "it waits for the row");
    // The connection of the question: the server has seen that the operator has gone.
    until_metric(&instance.stranger(), "seckill_http_connections 1").await;
    held.rollback().await.expect("rolled back");
    instance.until_available(item, 6).await;
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn an_edit_is_refused_when_somebody_else_was_quicker() {
    let (_shop, instance, item) = Shop::selling(json!({})).await;
    let path = format!("/api/items/{item}");
    let tag = |answer: &Answer| answer.headers["etag"].to_str().expect("text").to_owned();
    let seen = tag(&instance.stranger().get(&path).await);
    assert!(seen.starts_with('"') && seen.ends_with('"'), "{seen}");
    assert_eq!(tag(&instance.stranger().get(&path).await), seen, "reading changes no tag");
    let edited =
        edit_if(&instance, item, &seen, json!({ "paused": true })).await.expect_status(200);
    let now = tag(&instance.stranger().get(&path).await);
    assert_eq!(tag(&edited), now);
    assert_ne!(now, seen);
    let weak = format!("W/{now}");
    for stale in [seen.as_str(), "\"999\"", "\"\"", "nonsense", "\"-1\"", &weak] {
        let refused =
            edit_if(&instance, item, stale, json!({ "paused": false, "stock_delta": 5 })).await;
        assert_problem(&refused, (412, "precondition_failed"), stale);
        assert!(stale != weak || refused.text.contains("W/"), "{}", refused.text);
    }
    assert_has(&find(&instance, item).await, json!({ "paused": true, "total": 10 }));
    assert_eq!(edit_if(&instance, item, "*", json!({ "paused": false })).await.status, 200);
    assert_eq!(edit(&instance, item, json!({ "paused": true })).await.status, 200);
    // Of many who saw the same only one gets through.
    let seen = tag(&instance.stranger().get(&path).await);
    let edits = (0..8).map(|_| edit_if(&instance, item, &seen, json!({ "stock_delta": 1 })));
    assert_eq!(join_all(edits).await.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(available(&instance, item).await, 11);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn stock_that_is_sold_cannot_be_taken_out() {
    let (_shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 4 })).await;
    let path = format!("/api/seckill/redis-watch/{item}");
    order_id(&instance.buyer(1).post(&path, &json!({ "quantity": 4 })).await);
    let before = find(&instance, item).await;
    for delta in [json!(-7), json!(-1_000_000_000), json!(999_999_991)] {
        // The rest of a refused edit is not made either.
        let refused = edit(&instance, item, json!({ "paused": true, "stock_delta": delta })).await;
        assert_problem(&refused, (422, "stock_below_sold"), "too many");
    }
    let mut after = find(&instance, item).await;
    after["server_time"] = before["server_time"].clone();
    assert_eq!(after, before);
    let edited = edit(&instance, item, json!({ "stock_delta": -6 })).await;
    assert_eq!((&edited.json["total"], &edited.json["available"]), (&json!(4), &json!(0)));
    assert_eq!(edited.json["state"], "sold_out");
    instance.buyer(2).buy("redis-watch", item).await.expect_problem(409, "sold_out");
    assert_has(&assert_clean(&instance, item).await, json!({ "total": 4, "redis_available": 0 }));
    // The most that a sale may have.
    let edited = edit(&instance, item, json!({ "stock_delta": 999_999_996 })).await;
    assert_eq!(edited.json["total"], 1_000_000_000, "{}", edited.text);
    let refused = edit(&instance, item, json!({ "stock_delta": 1 })).await;
    assert_problem(&refused, (422, "stock_below_sold"), "one too many");
}
