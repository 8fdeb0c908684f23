//! Answers when a server that is needed is gone or slow: what changed is never a guess.

use crate::support::prelude::*;
use crate::support::send_and_leave;

/// Nothing listens there.
const NOWHERE: &str = "127.0.0.1:1";

/// Two instances: one starts without MySQL, the other one without Redis.
#[tokio::test]
async fn without_mysql_nothing_is_sold_and_nothing_is_leaked() {
    let (shop, whole, item) = Shop::selling(json!({})).await;
    let url = Secret::new(format!("mysql://root:planted-password@{NOWHERE}/nowhere"));
    let without = |config: &mut Config| {
        config.database_url = url;
        config.mysql.acquire_timeout_ms = 500;
    };
    let instance = shop.start_with(without).await;
    let buyer = instance.buyer(1);
    let credentials = json!({ "username": "somebody", "password": "long enough" });
    let mut answers = Vec::new();
    for strategy in ["default", "mysql-atomic", "redis-watch"] {
        let bought = buyer.buy(strategy, item).await;
        assert_eq!(bought.json["outcome"], "none", "{strategy}");
        answers.push((strategy, bought));
    }
    answers.push(("list", instance.stranger().get("/api/items").await));
    answers.push(("orders", buyer.get("/api/orders").await));
    answers.push(("sign up", instance.stranger().post("/api/users", &credentials).await));
    for (what, answer) in &answers {
        assert_problem(answer, (503, "dependency_unavailable"), what);
        for leak in ["planted-password", NOWHERE, "SELECT", "sqlx", "pool"] {
            assert!(!answer.text.contains(leak), "{what} shows {leak}: {}", answer.text);
        }
    }
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!((ready.status, &ready.json["dependencies"]["redis"]), (200, &json!("ok")));
    assert_ne!(ready.json["dependencies"]["mysql"], "ok");
    assert_eq!(assert_clean(&whole, item).await["orders"], 0);
    // Without Redis it sells, and shows no password of its URL.
    let url = Secret::new(format!("redis://:planted-password@{NOWHERE}"));
    let without = |config: &mut Config| {
        config.redis_url = url;
        config.redis.command_timeout_ms = 500;
    };
    let instance = shop.start_with(without).await;
    let refused = instance.buyer(1).buy("redis-watch", item).await;
    assert_problem(&refused, (503, "dependency_unavailable"), "redis-watch");
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    let ready = instance.stranger().get("/readyz").await.expect_status(200);
    assert_ne!(ready.json["dependencies"]["redis"], "ok");
    for text in [&refused.text, &ready.text] {
        assert!(!text.contains("planted-password") && !text.contains(NOWHERE), "{text}");
    }
    assert_eq!(assert_clean(&whole, item).await["orders"], 1);
}

#[tokio::test]
async fn a_purchase_outlives_its_client() {
    let (shop, instance) = Shop::open().await;
    for (strategy, id) in [("lock-redis", 1), ("mysql-atomic", 2)] {
        let item = instance.make_item(json!({})).await;
        let buyer = instance.buyer(id);
        let holder = hold_stock_row(&shop.pool, item).await;
        let impatient = buyer.clone();
        let press = async move { impatient.buy_with_key(strategy, item, "k1").await };
        send_and_leave(&instance, 1, press).await;
        holder.rollback().await.expect("the row is free");
        let one = |seen: &Answer| seen.json["orders"].as_array().map(Vec::len) == Some(1);
        buyer.until("/api/orders", one).await;
        let told = buyer.buy_with_key(strategy, item, "k1").await;
        let is_replayed = told.headers.contains_key("idempotency-replayed");
        assert_eq!((told.status, is_replayed), (201, true), "{strategy}: {}", told.text);
        assert_eq!(assert_clean(&instance, item).await["orders"], 1, "{strategy}");
    }
}

mod a_refusal_is_told_while_redis_is_silent {
    crate::support::strategies::tests! {
        super::a_refusal_is_told_while_redis_is_silent;
        redis_bucket redis_lua redis_watch
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lock_redis() {
        super::a_refusal_is_told_while_redis_is_silent("lock-redis?store=redis").await;
    }
}

/// The ledger refuses, and the units cannot be given back before the buyer's time is over.
async fn a_refusal_is_told_while_redis_is_silent(strategy: &str) {
    let redis = link_to(&redis_url().await).await;
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 2 }), |config| {
        config.redis_url = Secret::new(redis.url());
        // As if the ledger had used up most of the time.
        config.purchase.deadline_ms = 4_000;
        config.redis.command_timeout_ms = 10_000;
        config.lock.lease_ms = 30_000;
        // Its statements are seen.
        config.mysql.order_routine = false;
    })
    .await;
    // The counter is loaded.
    assert_eq!(instance.buyer(2).buy(strategy, item).await.status, 201);
    let mut holder = hold_stock_row(&shop.pool, item).await;
    let buyer = instance.buyer(1);
    let asked = strategy.to_owned();
    let buying = tokio::spawn(async move { buyer.buy_with_key(&asked, item, "k").await });
    until_running(&shop.pool, "UPDATE stock%", 1).await;
    redis.set(Fault::Stall);
    let take = "UPDATE stock SET available = available - 1 WHERE item_id = ?";
    sqlx::query(take).bind(item).execute(&mut *holder).await.expect("the unit is taken");
    holder.commit().await.expect("committed");
    assert_problem(&buying.await.expect("no panic"), (409, "sold_out"), strategy);
    redis.mend();
    let give = "UPDATE stock SET available = available + 1 WHERE item_id = ?";
    sqlx::query(give).bind(item).execute(&shop.pool).await.expect("the unit is back");
    instance.buyer(1).buy_until_sold(strategy, item, "k").await;
    assert_eq!(assert_clean(&instance, item).await["held"], 2);
}
