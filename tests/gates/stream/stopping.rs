//! A stop while orders are queued.

use lifecycle::StopResult;
use serde_json::json;
use tokio::time::timeout;

use super::{STREAM, deliveries, hold_up, in_ledger, queue, shop};
use crate::http::{BOUND, assert_clean, eventually, when};
use crate::support::Shop;

/// Items with a queue. The orders of two are written by themselves, and those of the others in batches.
const ITEMS: usize = 4;
/// Orders of each item behind the one that a consumer has.
const BEHIND: i64 = 5;

/// Waits until the consumers have this number of orders of an item.
async fn until_in_hand(shop: &Shop, item: i64, orders: usize) {
    eventually("orders in hand", || async {
        let delivered = deliveries(shop, item).await;
        when(delivered.len() == orders, delivered)
    })
    .await;
}

/// Waits until the ledger has this number of orders of an item.
async fn until_in_ledger(shop: &Shop, item: i64, orders: usize) {
    eventually("orders in the ledger", || async {
        let found = in_ledger(shop, item).await;
        when(found.len() == orders, found)
    })
    .await;
}

/// The others are decided by another instance, or after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_finishes_the_orders_in_hand_and_takes_no_others() {
    let mut shop = shop().await;
    // A consumer tries for as long as this test holds the rows.
    shop.config.mysql.lock_wait_timeout_seconds = 4;
    let instance = shop.start().await;
    let mut held = Vec::new();
    for _ in 0..ITEMS {
        let item = instance.make_item(json!({ "stock": 10 })).await;
        assert_eq!(instance.buyer(99).buy_for_good(STREAM, item).await.status, 201);
        until_in_hand(&shop, item, 0).await;
        let row = hold_up(&shop, item).await;
        instance.buyer(98).buy(STREAM, item).await.expect_status(202);
        until_in_hand(&shop, item, 1).await;
        queue(&instance, item, BEHIND).await;
        held.push((item, row));
    }
    let drained = instance.lifecycle.drained();
    let stopping = tokio::spawn(instance.stop());
    timeout(BOUND, drained.cancelled()).await.expect("no purchase runs");
    let mut items = Vec::new();
    for (item, row) in held {
        row.rollback().await.expect("the row is free");
        items.push(item);
    }
    assert_eq!(stopping.await.expect("no panic"), StopResult::Clean);
    for item in &items {
        assert_eq!(in_ledger(&shop, *item).await.len(), 2, "the one in hand alone is decided");
    }
    let next = shop.start().await;
    for item in items {
        until_in_ledger(&shop, item, 2 + BEHIND as usize).await;
        assert_clean(&next, item).await;
    }
}
