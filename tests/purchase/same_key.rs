//! One key is one order, and a definite refusal stays one: also while the first try still runs,
//! here or on another instance, and while its order waits in a queue.

use leaselock::redis::plain;
use leaselock::{AcquireOptions, LockName, Wait};

use crate::support::prelude::*;
use crate::support::send_and_leave;

const STREAM: &str = "redis-stream";

/// Changes an item beside the service, since an edit by an operator waits for the held row; the
/// instances see it when they next look at the item.
async fn edit(shop: &Shop, item: i64, change: &str) {
    shop.change(sqlx::query(&format!("UPDATE items SET {change} WHERE id = ?")).bind(item)).await;
}

/// Waits until an instance refuses other buyers for good.
async fn refuses(instance: &Instance, strategy: &str, item: i64, code: &str) {
    let other =
        instance.buyer(99).buy_until(strategy, item, "other", |other| other.code() == code).await;
    assert_eq!(other.json["outcome"], "none", "another buyer's key never ran: {}", other.text);
}

/// Asserts that nothing definite is said about the key. A busy machine may not look it up in time; then it is asked for
/// again.
async fn assert_in_progress(buyer: &Client, strategy: &str, item: i64, key: &str, what: &str) {
    let is_back = |answer: &Answer| answer.code() != "dependency_unavailable";
    let answer = buyer.buy_until(strategy, item, key, is_back).await;
    assert_problem(&answer, (409, "request_in_progress"), what);
    assert_eq!(answer.json["outcome"], "unknown", "{what}: {}", answer.text);
    assert_eq!(answer.json["retryable"], true, "{what}");
    assert!(answer.headers.contains_key("retry-after"), "{what}");
}

/// The sale of a key whose first try still runs ends in every way that refuses the others.
async fn a_running_key_is_not_refused(strategy: &str, elsewhere: bool) {
    let (shop, here) = Shop::open_with(|config| {
        // A transaction waits longer for its row than its buyer for the answer.
        config.purchase.deadline_ms = 3_000;
        config.mysql.lock_wait_timeout_seconds = 30;
    })
    .await;
    let beside = if elsewhere { Some(shop.start().await) } else { None };
    let there = beside.as_ref().unwrap_or(&here);
    let item = here.make_item(json!({ "stock": 5 })).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let first = here.buyer(1).buy_until_unknown(strategy, item, "k").await;
    assert_problem(&first, (504, "outcome_unknown"), "the row is held");
    let buyer = there.buyer(1);
    edit(&shop, item, "paused = 1").await;
    refuses(there, strategy, item, "sale_paused").await;
    assert_in_progress(&buyer, strategy, item, "k", "while the sale is paused").await;
    edit(&shop, item, "paused = 0, ends_at = starts_at + INTERVAL 1 SECOND").await;
    refuses(there, strategy, item, "sale_ended").await;
    assert_in_progress(&buyer, strategy, item, "k", "after the sale").await;
    holder.rollback().await.expect("the row is free");
    let told = buyer.buy_until_sold(strategy, item, "k").await;
    assert_eq!(told.headers["idempotency-replayed"], "true");
    assert_eq!(assert_clean(&here, item).await["orders"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_still_runs_under_a_lock_is_not_refused() {
    a_running_key_is_not_refused("lock-redis", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_still_runs_on_another_instance_is_not_refused() {
    a_running_key_is_not_refused("mysql-atomic", true).await;
}

/// A purchase that waits for the lock behind another buyer's order has no row in the ledger yet; its
/// key is not refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_waits_for_its_turn_on_another_instance_is_not_refused() {
    let (shop, here) = Shop::open_with(patient).await;
    let there = shop.start().await;
    let item = here.make_item(json!({ "stock": 5 })).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let ahead = (10..14).map(|id| {
        let buyer = here.buyer(id);
        async move { buyer.buy_with_key("lock-redis", item, "ahead").await }
    });
    let ahead = tokio::spawn(join_all(ahead));
    until_in_flight(&here, 4).await;
    let buyer = here.buyer(1);
    let press = async move { buyer.buy_with_key("lock-redis", item, "k").await };
    send_and_leave(&here, 5, press).await;
    // It is said at once that a client went away while its request ran.
    let announced = "SELECT COUNT(*) FROM running_requests WHERE user_id = 1 AND request_key = 'k'";
    shop.until_count(announced, 1).await;
    edit(&shop, item, "paused = 1").await;
    // More than a buyer may have: a request that is looked at too early does not wait in the line.
    let path = format!("/api/seckill/lock-redis/{item}");
    let nine = json!({ "quantity": 9 });
    let other = || async { there.buyer(99).post(&path, &nine).await };
    until(BOUND, other, |other| other.code() == "sale_paused").await;
    assert_in_progress(&there.buyer(1), "lock-redis", item, "k", "while the sale is paused").await;
    holder.rollback().await.expect("the row is free");
    ahead.await.expect("no panic");
    // In the end it is an order or it is not, and the key tells the same from then on.
    let has_ended = |end: &Answer| end.code() != "request_in_progress";
    let end = there.buyer(1).buy_until("lock-redis", item, "k", has_ended).await;
    assert!(end.status == 201 || end.code() == "sale_paused", "{}", end.text);
    let orders = shop.number("SELECT COUNT(*) FROM orders WHERE user_id = 1").await;
    assert_eq!(orders, i64::from(end.status == 201));
    shop.until_count("SELECT COUNT(*) FROM running_requests", 0).await;
}

/// An instance that died cannot say that its requests have ended.
#[tokio::test]
async fn a_key_that_a_dead_instance_announced_is_refused_once_that_has_expired() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 0 })).await;
    let announce = "INSERT INTO running_requests (user_id, item_id, request_key, instance, expires_at) \
         VALUES (1, ?, 'k', 'dead', UTC_TIMESTAMP(6) + INTERVAL 300 SECOND)";
    shop.change(sqlx::query(announce).bind(item)).await;
    let buyer = instance.buyer(1);
    assert_in_progress(&buyer, "mysql-atomic", item, "k", "while it may run").await;
    refuses(&instance, "mysql-atomic", item, "sold_out").await;
    let expire = "UPDATE running_requests SET expires_at = UTC_TIMESTAMP(6)";
    shop.change(sqlx::query(expire)).await;
    let is_back = |answer: &Answer| answer.code() != "dependency_unavailable";
    let refused = buyer.buy_until("mysql-atomic", item, "k", is_back).await;
    assert_problem(&refused, (409, "sold_out"), "it has expired");
    assert_eq!(refused.json["outcome"], "none", "{}", refused.text);
}

/// An earlier try may hold the buyer's lock: one that began a moment ago on another instance and is
/// not announced yet.
#[tokio::test]
async fn a_key_behind_its_buyers_own_lock_is_not_refused() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 5 }), patient).await;
    let tasks = TaskTracker::new();
    let buyers = plain::mutex(shop.redis_client().shared(), &shop.config.redis.prefix, &tasks);
    let name = LockName::new("user:1").expect("a name");
    let options = AcquireOptions { lease: Duration::from_secs(30), wait: Wait::Never };
    let guard = buyers.expect("a prefix").acquire(&name, options).await.expect("it is free");
    let buyer = instance.buyer(1);
    assert_in_progress(&buyer, "lock-redis", item, "k", "while the buyer's lock is held").await;
    let _ = guard.release().await;
    assert_eq!(buyer.buy_with_key("lock-redis", item, "k").await.status, 201);
}

/// An order that waits in the queue is what its key is answered with, whatever strategy is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_key_is_the_same_order_by_any_strategy() {
    let shop = Shop::with(|config| config.mysql.lock_wait_timeout_seconds = 1).await;
    let (here, there) = (shop.start().await, shop.start().await);
    let body = json!({ "stock": 5, "per_buyer_limit": 5, "strategy": STREAM });
    let item = here.make_item(body).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let queued = here.buyer(1).buy_with_key("default", item, "k").await.expect_status(202);
    edit(&shop, item, "strategy = 'mysql-atomic'").await;
    let same = async |instance: &Instance, strategy: &str, what: &str| {
        let again = instance.buyer(1).buy_with_key(strategy, item, "k").await;
        assert_eq!((again.status, order_id(&again)), (202, order_id(&queued)), "{what}");
        assert_eq!(again.headers["idempotency-replayed"], "true", "{what}");
    };
    same(&here, "mysql-atomic", "here").await;
    same(&there, "mysql-atomic", "there").await;
    same(&there, "lock-redis", "another strategy").await;
    // The memory of requests runs out while the order is still queued.
    let requests = format!("{}{{item:{item}}}:requests", shop.config.redis.prefix);
    let () = shop.redis(&["DEL", &requests]).await;
    same(&here, "mysql-atomic", "after the memory ran out").await;
    same(&there, STREAM, "queued again after the memory ran out").await;
    // Another quantity is another request, and a pause does not refuse the key.
    let path = format!("/api/seckill/mysql-atomic/{item}");
    let reused = here.buyer(1).request(Method::POST, &path).header("idempotency-key", "k");
    let reused = Client::send(reused.json(&json!({ "quantity": 2 }))).await;
    assert_problem(&reused, (422, "idempotency_key_reused"), "another quantity");
    assert_eq!(reused.json["order_id"], order_id(&queued));
    edit(&shop, item, "paused = 1").await;
    refuses(&here, "mysql-atomic", item, "sale_paused").await;
    same(&here, "mysql-atomic", "while the sale is paused").await;
    holder.rollback().await.expect("the row is free");
    let path = format!("/api/orders/{}", order_id(&queued));
    here.buyer(1).until(&path, |seen| seen.json["status"] == "pending").await;
    let statement = sqlx::query_scalar("SELECT id FROM orders WHERE item_id = ?").bind(item);
    let orders: Vec<String> = shop.read_all(statement).await;
    assert_eq!(orders, [order_id(&queued)]);
    assert_clean(&here, item).await;
}
