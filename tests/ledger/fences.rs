//! The record of accepted fences, and its audits: each of them sees a stale write that was let in.

use std::process::Stdio;

use sqlx::Executor;
use tokio::process::Command;

use crate::process::program::{PROGRAM, loadtest};
use crate::support::prelude::*;

/// The counters and sequences of the item's orders, each with the number of fences.
async fn recorded(shop: &Shop, item: i64) -> Vec<(Option<String>, Option<u64>, i64)> {
    let query = "SELECT fence_backend, fence_sequence, COUNT(fence) FROM orders WHERE item_id = ? \
                 GROUP BY fence_backend, fence_sequence ORDER BY fence_backend, fence_sequence";
    sqlx::query_as(query).bind(item).fetch_all(&shop.pool).await.expect("read")
}

/// Writes as an arbiter does for a buyer who bought nothing yet, without comparing the fence.
async fn let_in(shop: &Shop, item: i64, buyer: i64, fence: u64) {
    let id = format!("00000000-0000-7000-8000-{buyer:012}");
    let mut write = shop.pool.begin().await.expect("a transaction");
    for statement in [
        format!(
            "UPDATE fences SET fence = {fence}, accepted_writes = accepted_writes + 1 \
             WHERE item_id = {item} AND backend = 'redis'"
        ),
        format!(
            "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
             fence, fence_backend, fence_sequence, request_key, created_at, expires_at) \
             SELECT '{id}', {item}, {buyer}, 1, 250, 'pending', 'lock-redis', {fence}, 'redis', \
             accepted_writes, '{id}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR \
             FROM fences WHERE item_id = {item} AND backend = 'redis'"
        ),
        format!(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES ({item}, {buyer}, 1, 1)"
        ),
        format!(
            "INSERT INTO stock_movements VALUES ({item}, '{id}', 'sold', -1, UTC_TIMESTAMP(6))"
        ),
        format!("UPDATE stock SET available = available - 1 WHERE item_id = {item}"),
    ] {
        let done = write.execute(&*statement).await.expect("planted");
        assert_eq!(done.rows_affected(), 1, "{statement}");
    }
    write.commit().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_audit_names_a_stale_write_that_was_let_in() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    for buyer in 1..=2 {
        assert_eq!(instance.buyer(buyer).buy("lock-redis", item).await.status, 201);
    }
    // Another counter beside it; its fences cannot be compared with those.
    assert_eq!(instance.buyer(3).buy("lock-redis?scope=market", item).await.status, 201);
    let redis = |sequence| (Some("redis".to_owned()), Some(sequence), 1);
    let market = (Some("redis/market".to_owned()), Some(1), 1);
    assert_eq!(recorded(&shop, item).await, [redis(1), redis(2), market]);
    assert_eq!(instance.broken(item).await, [""; 0]);
    assert_eq!(run(&shop, &["audit"]).await.0, 0);
    let_in(&shop, item, 4, 7).await;
    // The next one is later than all of them, and hides nothing.
    assert_eq!(instance.buyer(5).buy("lock-redis", item).await.status, 201);
    assert_eq!(instance.broken(item).await, ["I6"]);
    let text = run_says(&shop, &["audit"], (1, "I6    BROKEN")).await;
    assert!(text.contains("1 orders below a fence accepted before"), "{text}");
    // Nothing compared a fence that a statement has written which knows the older columns only.
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("lock-redis", item).await.status, 201);
    assert_eq!(instance.broken(item).await, [""; 0]);
    let old = "UPDATE orders SET fence_backend = NULL, fence_sequence = DEFAULT(fence_sequence) \
               WHERE item_id = ?";
    shop.change(sqlx::query(old).bind(item)).await;
    assert_eq!(instance.broken(item).await, ["I6"]);
}

/// The load test reads with statements of its own. A trigger turns the order of the fences round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_test_names_stale_writes() {
    let (shop, instance) = Shop::open().await;
    let fire = async || {
        let output = Command::new(loadtest())
            .args(["run", "--stock", "20", "--buyers", "60", "--requests", "60"])
            .args(["--concurrency", "10", "--strategy", "lock-redis", "--seckill", PROGRAM])
            .args(["--url", &format!("http://{}", instance.addr)])
            .env("DATABASE_URL", shop.config.database_url.reveal())
            .env("SECKILL_SECRET", shop.config.secret.reveal())
            .stdin(Stdio::null())
            .output();
        told(&output.await.expect("the load test runs"))
    };
    let (code, text) = fire().await;
    assert!(code == 0 && text.contains("I6   holds"), "{code}: {text}");
    let trigger = "CREATE TRIGGER turned BEFORE INSERT ON orders FOR EACH ROW \
                   SET NEW.fence = 9007199254740991 - NEW.fence";
    shop.pool.execute(sqlx::raw_sql(trigger)).await.expect("the trigger is made");
    let (code, text) = fire().await;
    assert!(code == 1 && text.contains("I6   BROKEN"), "{code}: {text}");
}
