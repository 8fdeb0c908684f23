//! The reconciliation: it reaches every counted item, and repairs a counter only when two readings
//! agree.

use extension::job::Job;
use gates::redis_store::queue::{Push, Reader};
use gates::redis_store::{Buckets, Counters, Queue};
use gates::redis_stream;
use ledger::rows::audit::recent_sales;
use seckill::audit::audit;
use seckill::job::{Bounds, Reconcile};

use crate::support;
use crate::support::prelude::*;

/// Units of each item, by the ledger.
const STOCK: i64 = 10;

/// A ledger with counted items, without a service: only the test runs the job.
struct ReconcileTestbed {
    shop: Shop,
    counters: Counters,
    metrics: Metrics,
}

impl ReconcileTestbed {
    async fn new() -> Self {
        let shop = Shop::new().await;
        let metrics = Metrics::new();
        let counters = Counters::new(shop.redis_client(), shop.pool.clone(), metrics.clone());
        Self { shop, counters, metrics }
    }

    fn job(&self) -> Reconcile {
        let (pool, counters) = (self.shop.pool.clone(), self.counters.clone());
        Reconcile::new(pool, counters, self.metrics.clone())
    }

    fn queue(&self) -> Queue {
        let (pool, counters) = (self.shop.pool.clone(), self.counters.clone());
        Queue::new(self.shop.redis_client(), pool, counters, redis_stream::NAME, 10).0
    }

    /// Makes items whose sale ends in `hours` from now, each with an epoch in the ledger.
    async fn make(&self, count: usize, hours: i32) -> Vec<ItemId> {
        // In shards, the id says where an item lies.
        let last: Option<i64> =
            self.shop.read(sqlx::query_scalar("SELECT MAX(id) FROM items")).await;
        let ids = (last.unwrap_or_default() + 1..).take(count);
        let row = "(?, 'A thing', 100, UTC_TIMESTAMP(6) - INTERVAL 3 DAY, \
                   UTC_TIMESTAMP(6) + INTERVAL ? HOUR, 5, 300, 'redis-lua', 'shop', 'on', \
                   'USD', UTC_TIMESTAMP(6))";
        let statement = format!(
            "INSERT INTO items (id, name, price_cents, starts_at, ends_at, per_buyer_limit, \
             hold_seconds, strategy, kind, arbiter, currency, created_at) VALUES {}",
            vec![row; count].join(", ")
        );
        let mut query = sqlx::query(&statement);
        for id in ids.clone() {
            query = query.bind(id).bind(hours);
        }
        query.execute(&self.shop.pool).await.expect("items");
        for statement in [
            "INSERT IGNORE INTO stock (item_id, total, available) SELECT id, 10, 10 FROM items",
            "INSERT IGNORE INTO redis_counters (item_id, epoch) SELECT id, 1 FROM items",
        ] {
            self.shop.change(sqlx::query(statement)).await;
        }
        ids.map(|id| ItemId::new(id).expect("positive")).collect()
    }

    async fn set(&self, item: ItemId, available: i64) {
        let key = self.counters.key(item);
        let available = available.to_string();
        let words = ["HSET", &key, "epoch", "1", "version", "0", "available", &available];
        let () = self.shop.redis(&words).await;
    }

    async fn left(&self, item: ItemId) -> i64 {
        self.counters.peek(item).await.expect("read").expect("loaded").available
    }

    async fn execute(&self, statement: &str) {
        self.shop.change(sqlx::query(statement)).await;
    }

    /// What the audit says of the counters: `None` if gates use none.
    async fn counters_hold(&self, item: ItemId) -> Option<bool> {
        let audited = audit(&self.shop.pool, Some(&self.counters), item).await.expect("read");
        let findings = audited.expect("an item").findings;
        findings.iter().find(|one| one.invariant == "I7").expect("judged").holds
    }

    async fn drifted(&self, items: &[ItemId]) -> usize {
        let mut drifted = 0;
        for &item in items {
            drifted += usize::from(self.left(item).await != STOCK);
        }
        drifted
    }
}

async fn run(job: &Reconcile) -> String {
    job.run().await.expect("the job runs")
}

#[tokio::test]
async fn each_of_1001_recent_sales_is_audited() {
    let testbed = ReconcileTestbed::new().await;
    let items = testbed.make(1_001, 24).await;
    let sales = recent_sales(&testbed.shop.pool).await.expect("read");
    assert_eq!(sales.iter().map(|sale| sale.id).collect::<Vec<_>>(), items);
}

#[tokio::test]
async fn drift_of_the_oldest_of_201_counted_items_is_repaired() {
    let testbed = ReconcileTestbed::new().await;
    let items = testbed.make(201, 24).await;
    testbed.set(items[0], STOCK - 3).await;
    testbed.set(items[200], STOCK + 2).await;
    let job = testbed.job();
    run(&job).await;
    assert_eq!(testbed.metrics.counters_drift.get(), 5, "the oldest counts too");
    run(&job).await;
    assert_eq!([testbed.left(items[0]).await, testbed.left(items[200]).await], [STOCK; 2]);
    run(&job).await;
    assert_eq!(testbed.metrics.counters_drift.get(), 0);
}

#[tokio::test]
async fn open_sales_come_first_and_the_others_have_their_turn() {
    let testbed = ReconcileTestbed::new().await;
    let ended = testbed.make(7, -1).await;
    let open = testbed.make(3, 24).await;
    for &item in ended.iter().chain(&open) {
        testbed.set(item, STOCK - 1).await;
    }
    // Newer items without a counter in Redis.
    testbed.make(5, 24).await;
    let job = testbed.job().with_bounds(Bounds { page: 2, open_pages: 5, ended_pages: 1 });
    run(&job).await;
    assert_eq!(testbed.metrics.counters_drift.get(), 5, "what was looked at so far");
    run(&job).await;
    assert_eq!(testbed.drifted(&open).await, 0, "open sales are looked at in each run");
    assert_eq!(testbed.drifted(&ended).await, 7, "the others are not looked at twice yet");
    // Four pages of those: each difference is seen once more, and repaired, within four runs.
    for _ in 0..6 {
        run(&job).await;
    }
    assert_eq!(testbed.drifted(&ended).await, 0);
    for _ in 0..4 {
        run(&job).await;
    }
    assert_eq!(testbed.metrics.counters_drift.get(), 0, "nothing is remembered that is not there");
}

/// A counter has a field for each buyer, and nobody needs it when the sale is long over.
#[tokio::test]
async fn a_counter_is_removed_a_day_after_the_sale() {
    let testbed = ReconcileTestbed::new().await;
    let long_over = testbed.make(2, -25).await;
    let over = testbed.make(1, -23).await;
    for &item in long_over.iter().chain(&over) {
        testbed.set(item, STOCK).await;
    }
    let buckets = Buckets::beside(&testbed.counters);
    buckets.take(long_over[1], 1, 0, in_a_minute()).await.expect("loaded, and one unit taken");
    run(&testbed.job()).await;
    for &item in &long_over {
        assert_eq!(testbed.counters.peek(item).await.expect("read"), None, "item {item}");
    }
    assert_eq!(buckets.peek(long_over[1]).await.expect("read"), None);
    assert_eq!(testbed.left(over[0]).await, STOCK);
    // The sale is prolonged.
    let loaded = testbed.counters.read(long_over[0], in_a_minute()).await.expect("loaded");
    assert_eq!(loaded.available, STOCK);
}

/// The queue of a sale that is long over goes with its counter, unless an order in it is unread or undecided.
#[tokio::test]
async fn an_empty_queue_is_removed_a_day_after_the_sale() {
    let testbed = ReconcileTestbed::new().await;
    let items = testbed.make(3, -25).await;
    let queue = testbed.queue();
    let push = async |item: ItemId, key: &str| {
        let purchase = support::purchase(&testbed.shop, item, 1, (redis_stream::NAME, key)).await;
        assert_eq!(
            queue.push(&purchase, None, in_a_minute()).await.expect("asked"),
            Push::Queued { is_replicated: true }
        );
    };
    for &item in &items {
        push(item, "k").await;
    }
    let reader = Reader::new(queue.clone());
    let decided = reader.read(items[0], 10).await.expect("read");
    let order = decided[0].order.as_ref().expect("an order");
    assert!(reader.ack(items[0], &decided[0].id, order, false).await.expect("acknowledged"));
    let pending = reader.read(items[1], 10).await.expect("read");
    assert_eq!(pending.len(), 1, "{pending:?}");
    run(&testbed.job()).await;
    let mut are_there = Vec::new();
    for item in &items {
        let key = format!("{}{{item:{item}}}:queue", testbed.shop.config.redis.prefix);
        are_there.push(testbed.shop.redis::<bool>(&["EXISTS", &key]).await);
    }
    assert_eq!(are_there, [false, true, true]);
    assert_eq!(reader.deliveries(items[1], &pending[0].id).await.expect("asked"), 1);
    assert_eq!(reader.read(items[2], 10).await.expect("read").len(), 1);
    // As if the sale had been prolonged.
    push(items[0], "later").await;
    assert_eq!(reader.read(items[0], 10).await.expect("read").len(), 1);
}

#[tokio::test]
async fn only_what_two_looks_agree_on_is_repaired() {
    let testbed = ReconcileTestbed::new().await;
    let item = testbed.make(1, 24).await[0];
    testbed.set(item, STOCK - 1).await;
    let job = testbed.job();
    run(&job).await;
    assert_eq!(testbed.left(item).await, STOCK - 1, "one look may see what is in flight");
    // The unit in flight arrived in the ledger, and another one is in flight.
    testbed.execute("UPDATE stock SET available = available - 1, version = version + 1").await;
    testbed.set(item, STOCK - 2).await;
    run(&job).await;
    assert_eq!(testbed.left(item).await, STOCK - 2, "another difference than the one before");
    // The counter is the same, and the ledger has changed.
    testbed.execute("UPDATE stock SET version = version + 1").await;
    run(&job).await;
    assert_eq!(testbed.left(item).await, STOCK - 2, "the ledger moved between the looks");
    run(&job).await;
    assert_eq!(testbed.left(item).await, STOCK - 1, "two looks agree");
}

#[tokio::test]
async fn a_counter_that_cannot_be_read_holds_up_no_other() {
    let testbed = ReconcileTestbed::new().await;
    let items = testbed.make(3, 24).await;
    testbed.set(items[0], STOCK - 1).await;
    testbed.set(items[2], STOCK - 1).await;
    let () = testbed.shop.redis(&["SET", &testbed.counters.key(items[1]), "no hash"]).await;
    let job = testbed.job();
    for _ in 0..2 {
        let told = job.run().await.expect_err("one could not be read");
        assert!(told.contains("1 could not be"), "{told}");
    }
    assert_eq!([testbed.left(items[0]).await, testbed.left(items[2]).await], [STOCK; 2]);
}

/// A restock is in the ledger, and its instance tells the counter of it only after a repair.
#[tokio::test]
async fn what_a_repair_has_counted_is_not_told_again() {
    let testbed = ReconcileTestbed::new().await;
    let item = testbed.make(1, 24).await[0];
    testbed.set(item, STOCK).await;
    testbed.execute("UPDATE stock SET available = available + 4, version = version + 1").await;
    let job = testbed.job();
    run(&job).await;
    run(&job).await;
    assert_eq!(testbed.left(item).await, STOCK + 4);
    testbed.counters.apply_delta(item, (1, 4), &[]).await;
    assert_eq!(testbed.left(item).await, STOCK + 4, "the repair knew of it");
    testbed.counters.apply_delta(item, (2, 4), &[]).await;
    assert_eq!(testbed.left(item).await, STOCK + 8, "a later change");
    assert_eq!(testbed.metrics.counters_given_back.get(), 0, "no purchase gave a unit back");
}

/// Redis may be that of another ledger, which had an item of the same number.
#[tokio::test]
async fn a_counter_that_gates_load_again_is_not_audited() {
    let testbed = ReconcileTestbed::new().await;
    let item = testbed.make(1, 24).await[0];
    testbed.set(item, STOCK - 3).await;
    assert_eq!(testbed.counters_hold(item).await, Some(false), "in use");
    testbed.execute("UPDATE redis_counters SET epoch = 2").await;
    assert_eq!(testbed.counters_hold(item).await, None, "of another load");
    testbed.execute("DELETE FROM redis_counters").await;
    assert_eq!(testbed.counters_hold(item).await, None, "of no gate");
    let buckets = Buckets::beside(&testbed.counters);
    buckets.take(item, 1, 0, in_a_minute()).await.expect("loaded, and one unit taken");
    assert_eq!(testbed.counters_hold(item).await, Some(false), "buckets in use");
    testbed.execute("DELETE FROM redis_buckets").await;
    assert_eq!(testbed.counters_hold(item).await, None, "buckets of no gate");
}
