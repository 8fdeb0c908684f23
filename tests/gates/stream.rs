//! The queue of `redis-stream`: what a 202 is worth, from the answer to the ledger.
//!
//! A test that has to see an order in the queue locks the item's stock row meanwhile: then nothing
//! can be decided, and everything else works.

mod counter;
mod dead_letters;
mod durable;
mod one_shard;
mod order;
mod replicas;
mod same_key;
mod stopping;

use gates::redis_store::Queue;
use gates::redis_store::queue::Push;
use sqlx::{MySql, Transaction};

use crate::support;
use crate::support::prelude::*;

const STREAM: &str = "redis-stream";

/// A shop that takes over and tries again sooner than usual.
async fn shop() -> Shop {
    Shop::with(|config| {
        config.queue.poll_ms = 100;
        config.queue.claim_idle_ms = 1_000;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await
}

/// An instance whose own consumers stay out of it.
async fn start_aside(shop: &Shop) -> Instance {
    let aside = |config: &mut Config| {
        config.queue.claim_idle_ms = 7_200_000;
        config.queue.poll_ms = 3_600_000;
    };
    shop.start_with(aside).await
}

/// Nothing of the item can be decided until this is dropped or rolled back.
async fn hold_up(shop: &Shop, item: i64) -> Transaction<'static, MySql> {
    hold_stock_row(&shop.pool, item).await
}

async fn order(client: &Client, id: &str) -> Answer {
    client.get(&format!("/api/orders/{id}")).await
}

/// Waits until an order stands so.
async fn ends_as(client: &Client, id: &str, status: &str) {
    eventually(&format!("the order to be {status}"), || async {
        let seen = order(client, id).await;
        assert_eq!(seen.status, 200, "an accepted order is not found: {}", seen.text);
        (seen.json["status"] == status).then_some(())
    })
    .await;
}

/// The ids of an item's orders in the ledger that were not refused.
async fn in_ledger(shop: &Shop, item: i64) -> Vec<String> {
    let read = "SELECT id FROM orders WHERE item_id = ? AND status <> 'rejected' ORDER BY id";
    shop.read_all(sqlx::query_scalar(read).bind(item)).await
}

fn key(shop: &Shop, item: i64, part: &str) -> String {
    format!("{}{{item:{item}}}:{part}", shop.config.redis.prefix)
}

/// The queues, as an instance sees them.
fn queue_of(shop: &Shop) -> Queue {
    queue_with(shop, 10)
}

/// The queues, as an instance with this limit of orders sees them.
fn queue_with(shop: &Shop, backlog_max: usize) -> Queue {
    let pool = shop.pool.clone();
    Queue::new(shop.redis_client(), pool, shop.counters(), STREAM, backlog_max).0
}

/// Queues a purchase behind the service's back.
async fn push(queue: &Queue, purchase: &Purchase) {
    assert_eq!(
        queue.push(purchase, None, in_a_minute()).await.expect("asked"),
        Push::Queued { is_replicated: true }
    );
}

/// A purchase of one unit by buyer 1.
pub async fn purchase(shop: &Shop, item: i64, key: &str) -> Purchase {
    support::purchase(shop, ItemId::new(item).expect("positive"), 1, (STREAM, key)).await
}

/// How often each entry of the item's queue was delivered, as far as a consumer has it.
async fn deliveries(shop: &Shop, item: i64) -> Vec<u64> {
    let pending = ["XPENDING", &key(shop, item, "queue"), "arbiter", "-", "+", "100"];
    let rows: Vec<(String, String, u64, u64)> = shop.redis(&pending).await;
    rows.into_iter().map(|row| row.3).collect()
}

/// Units left by the counter in Redis.
async fn counted(shop: &Shop, item: i64) -> i64 {
    shop.redis(&["HGET", &key(shop, item, "stock"), "available"]).await
}

/// Queues one order for each of `buyers` buyers while nothing can be decided.
async fn queue(instance: &Instance, item: i64, buyers: i64) -> Vec<String> {
    let presses =
        (1..=buyers).map(async |id| instance.buyer(id).buy_with_key(STREAM, item, "k").await);
    let answers = join_all(presses).await.into_iter();
    answers.map(|answer| order_id(&answer.expect_status(202))).collect()
}
