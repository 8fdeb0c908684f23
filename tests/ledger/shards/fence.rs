//! The fence of a stale route: nothing is written where an item does not live any more.

use std::time::Duration;

use ledger::write::{
    Arbiter, BatchConnections, GroupCommit, OrderWrite, StockWrite, UnguardedWrite,
};
use serde_json::json;
use shop_domain::{Home, Item, ItemId, Outcome, Purchase, ShardId, Unavailable};
use shop_metrics::Metrics;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

use super::Sharded;
use crate::support::{Shop, assert_clean, eventually, purchase, when};

const MOVING: Outcome = Outcome::Unavailable(Unavailable::Moving);

/// A purchase whose route has this epoch, though the item's row has another one.
async fn by_route(shop: &Shop, item: i64, epoch: u64, key: &str) -> Purchase {
    let item = ItemId::new(item).expect("positive");
    let mut purchase = purchase(shop, item, 1, ("mysql-atomic", key)).await;
    let home = Home { shard: ShardId::HOME, epoch, is_only: false };
    purchase.item = Arc::new(Item { home, ..(*purchase.item).clone() });
    purchase
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_takes_stock_by_a_stale_route() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
    sqlx::query("UPDATE stock SET home_epoch = 2 WHERE item_id = ?")
        .bind(item)
        .execute(&shop.pool)
        .await
        .expect("closed");
    let stock: (u64, time::OffsetDateTime) =
        sqlx::query_as("SELECT version, changed_at FROM stock WHERE item_id = ?")
            .bind(item)
            .fetch_one(&shop.pool)
            .await
            .expect("a row");
    let stale = by_route(&shop, item, 1, "stale").await;
    let guarded = [
        StockWrite::Guarded,
        StockWrite::GuardedAfterLock,
        StockWrite::GuardedByVersion(stock.0),
        StockWrite::GuardedByTimestamp(stock.1),
    ];
    for is_called in [true, false] {
        let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new()).with_calls(is_called);
        for stock in guarded {
            let write = OrderWrite { purchase: &stale, fence: None, stock, deadline: None };
            assert_eq!(arbiter.write(&write).await, Ok(MOVING), "{stock:?}, called: {is_called}");
        }
    }
    let orders: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE item_id = ?")
        .bind(item)
        .fetch_one(&shop.pool)
        .await
        .expect("a count");
    assert_eq!(orders, 0);
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let right = by_route(&shop, item, 2, "right").await;
    let write =
        OrderWrite { purchase: &right, fence: None, stock: StockWrite::Guarded, deadline: None };
    assert!(matches!(arbiter.write(&write).await, Ok(Outcome::Sold(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_textbooks_statement_takes_stock_by_a_stale_route() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 9, "arbiter": "off" })).await;
    sqlx::query("UPDATE stock SET home_epoch = 2 WHERE item_id = ?")
        .bind(item)
        .execute(&shop.pool)
        .await
        .expect("closed");
    let stale = by_route(&shop, item, 1, "stale").await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    for unguarded in [
        UnguardedWrite::Set { available: 8 },
        UnguardedWrite::CompareVersion { available: 8, version: 0 },
        UnguardedWrite::LockRow,
        UnguardedWrite::Record,
    ] {
        let stock = StockWrite::Unguarded(unguarded);
        let write = OrderWrite { purchase: &stale, fence: None, stock, deadline: None };
        let outcome = arbiter.write(&write).await.unwrap_or_else(Outcome::from);
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{unguarded:?}: {outcome:?}");
    }
    let left: i64 = sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ?")
        .bind(item)
        .fetch_one(&shop.pool)
        .await
        .expect("a row");
    assert_eq!(left, 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_writes_the_orders_whose_routes_are_right_and_no_others() {
    let (shop, instance) = Shop::open().await;
    let mut items = Vec::new();
    for _ in 0..3 {
        items.push(instance.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await);
    }
    sqlx::query("UPDATE stock SET home_epoch = 2 WHERE item_id = ?")
        .bind(items[1])
        .execute(&shop.pool)
        .await
        .expect("closed");
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let connections = || BatchConnections::new(shop.pool.clone(), 4);
    let shared = vec![connections()];
    let group = GroupCommit::with_shared_queues(arbiter, connections(), TaskTracker::new(), shared);
    for round in 0..4 {
        let mut writes = Vec::new();
        for (index, &item) in items.iter().enumerate() {
            for (epoch, word) in [(1, "old"), (2, "new")] {
                let key = format!("{word}-{round}");
                let purchase = by_route(&shop, item, epoch, &key).await;
                let is_right = (epoch == 2) == (index == 1);
                let group = group.clone();
                writes.push(async move { (is_right, group.write(purchase, None).await) });
            }
        }
        for (is_right, outcome) in futures::future::join_all(writes).await {
            match is_right {
                true => assert!(matches!(outcome, Outcome::Sold(_)), "{outcome:?}"),
                false => assert_eq!(outcome, MOVING),
            }
        }
    }
}

/// The route in the memory of the service is out of date: an item that is closed is answered "moving",
/// and is sold again as soon as its home says where.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_closed_for_a_move_is_sold_again_afterwards() {
    let sharded = Sharded::open().await;
    let item = sharded.item_in_each(&json!({ "stock": 9, "per_buyer_limit": 9 })).await[1];
    let buyer = sharded.instance.buyer(7);
    let bought = buyer.buy("mysql-batch", item).await;
    assert_eq!(bought.status, 201, "{}", bought.text);
    sqlx::query("UPDATE stock SET home_epoch = 2 WHERE item_id = ?")
        .bind(item)
        .execute(&sharded.pools[1])
        .await
        .expect("closed");
    for strategy in ["mysql-batch", "mysql-atomic", "mysql-version", "lock-redis", "redis-lua"] {
        let moving = buyer.buy(strategy, item).await;
        assert_eq!(
            (moving.status, &moving.json["code"]),
            (503, &json!("item_moving")),
            "{strategy}"
        );
        assert_eq!(moving.headers["retry-after"], "1", "{strategy}");
    }
    let order = bought.json["id"].as_str().expect("an id");
    for step in ["payment", "cancellation"] {
        let moving = buyer.post(&format!("/api/orders/{order}/{step}"), &json!({})).await;
        assert_eq!((moving.status, &moving.json["code"]), (503, &json!("item_moving")), "{step}");
    }
    let path = format!("/api/admin/items/{item}");
    let moving = sharded.instance.admin().patch(&path, &json!({ "stock_delta": 1 })).await;
    assert_eq!(moving.json["code"], "item_moving", "{}", moving.text);
    sqlx::query("UPDATE item_homes SET epoch = 2 WHERE item_id = ?")
        .bind(item)
        .execute(&sharded.pools[0])
        .await
        .expect("opened");
    // At once: the first purchase reads the home again, and is sold.
    let sold = buyer.buy("mysql-atomic", item).await;
    assert_eq!(sold.status, 201, "{}", sold.text);
    let paid = buyer.post(&format!("/api/orders/{order}/payment"), &json!({})).await;
    assert_eq!(paid.json["status"], "paid", "{}", paid.text);
    assert_clean(&sharded.instance, item).await;
}

/// Holds do not end by a stale route either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_ends_only_where_the_item_lives() {
    let sharded = Sharded::open().await;
    let item = sharded.item_in_each(&json!({ "stock": 1 })).await[1];
    assert_eq!(sharded.instance.buyer(7).buy("mysql-atomic", item).await.status, 201);
    for statement in [
        "UPDATE stock SET home_epoch = 2",
        "UPDATE orders SET expires_at = expires_at - INTERVAL 301 SECOND",
    ] {
        sqlx::query(statement).execute(&sharded.pools[1]).await.expect("changed");
    }
    // Later is no failure: the job says that the item is moving.
    eventually("a sweep that leaves the item alone", || async {
        let job = sharded.instance.admin().get("/readyz").await.json["jobs"]["expire-1"].clone();
        let says = job["said"].as_str().unwrap_or_default().contains("1 items are moving");
        when(job["ok"] == true && says, job)
    })
    .await;
    let status: String = sqlx::query_scalar("SELECT status FROM orders WHERE item_id = ?")
        .bind(item)
        .fetch_one(&sharded.pools[1])
        .await
        .expect("an order");
    assert_eq!(status, "pending");
    sqlx::query("UPDATE item_homes SET epoch = 2 WHERE item_id = ?")
        .bind(item)
        .execute(&sharded.pools[0])
        .await
        .expect("opened");
    let found = eventually(Duration::from_secs(20), || async {
        let found = sharded.instance.stranger().get(&format!("/api/items/{item}")).await.json;
        when(found["available"] == 1, found)
    });
    found.await;
}
