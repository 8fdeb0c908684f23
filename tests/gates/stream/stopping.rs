//! A stop while orders are queued.

use lifecycle::StopResult;
use seckill::consumer::EMPTYING_MAX;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;

/// Items with a queue. The orders of two are written by themselves, and those of the others in batches.
const ITEMS: usize = 4;
/// Orders of each item behind the one that a consumer has.
const BEHIND: usize = 5;

/// Waits until the consumers have this number of orders of an item.
async fn until_in_hand(shop: &Shop, item: i64, orders: usize) {
    until("orders in hand", || deliveries(shop, item), |delivered| delivered.len() == orders).await;
}

/// Waits until the ledger has this number of orders of an item.
async fn until_in_ledger(shop: &Shop, item: i64, orders: usize) {
    until("orders in the ledger", || in_ledger(shop, item), |found| found.len() == orders).await;
}

/// An instance that stops. Of each item it has sold one order; a consumer has the next one, whose row is held.
struct Stopping {
    shop: Shop,
    held: Vec<(i64, Transaction<'static, MySql>)>,
    stopped: JoinHandle<StopResult>,
}

impl Stopping {
    /// Its purchases have ended.
    async fn begin() -> Self {
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
            queue(&instance, item, BEHIND as i64).await;
            held.push((item, row));
        }
        let drained = instance.lifecycle.drained();
        let stopped = tokio::spawn(instance.stop());
        timeout(BOUND, drained.cancelled()).await.expect("no purchase runs");
        Self { shop, held, stopped }
    }

    /// Frees the rows, and waits for the end. Each item has `sold` orders then, and all orders after the next start.
    async fn ends_with(self, sold: usize) {
        let mut items = Vec::new();
        for (item, row) in self.held {
            row.rollback().await.expect("the row is free");
            items.push(item);
        }
        assert_eq!(self.stopped.await.expect("no panic"), StopResult::Clean);
        for item in &items {
            assert_eq!(in_ledger(&self.shop, *item).await.len(), sold);
        }
        let next = self.shop.start().await;
        for item in items {
            until_in_ledger(&self.shop, item, 2 + BEHIND).await;
            assert_clean(&next, item).await;
        }
    }
}

/// With a single instance, nobody else decides them before the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_empties_short_queues() {
    Stopping::begin().await.ends_with(2 + BEHIND).await;
}

/// The others are decided by another instance, or after the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_finishes_the_orders_in_hand_and_soon_takes_no_others() {
    let stopping = Stopping::begin().await;
    sleep(2 * EMPTYING_MAX).await;
    stopping.ends_with(2).await;
}
