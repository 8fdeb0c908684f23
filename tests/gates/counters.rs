//! Promises of single gates beyond the conformance of all: a retry takes units once, returned units
//! are sold, and a lost counter is loaded again.

use gates::redis_store::takes::TakeReceipt;
use gates::redis_store::{Buckets, Counters, Gathered, RedisClient, Take};
use ledger::write::{Arbiter, Conflict, OrderWrite, StockWrite};

use crate::support::prelude::*;
use crate::support::{own_redis, purchase};

/// An item of five units, up to nine for each buyer, and its Redis as gates see it.
struct GateTestbed {
    shop: Shop,
    instance: Instance,
    item: ItemId,
}

impl GateTestbed {
    async fn new() -> Self {
        // No reconciliation: what the gates do is looked at alone.
        let (shop, instance) = Shop::open_with(|config| {
            patient(config);
            config.job.reconcile_period_ms = 3_600_000;
        })
        .await;
        let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 9 })).await;
        Self { shop, instance, item: ItemId::new(item).expect("positive") }
    }

    fn counters(&self) -> Counters {
        self.shop.counters()
    }

    fn buckets(&self) -> Buckets {
        Buckets::beside(&self.counters())
    }

    /// Takes units for the first time.
    async fn take(&self, counters: &Counters, key: &str, units: u32) -> TakeReceipt {
        let first = counters.take_once(&self.purchase(key, units).await, in_a_minute()).await;
        let Ok(Take::First(taken)) = first else { panic!("{first:?}") };
        taken
    }

    async fn left(&self) -> i64 {
        self.counters().read(self.item, in_a_minute()).await.expect("a counter").available
    }

    async fn purchase(&self, key: &str, units: u32) -> Purchase {
        purchase(&self.shop, self.item, units, ("redis-lua", key)).await
    }
}

#[tokio::test]
async fn a_retry_of_a_request_takes_once_and_is_not_given_back_twice() {
    let testbed = GateTestbed::new().await;
    let (one, two) = (testbed.counters(), testbed.counters());
    let taken = testbed.take(&one, "k", 2).await;
    assert_eq!(testbed.left().await, 3);
    one.untake(&taken).await;
    one.untake(&taken).await;
    assert_eq!(testbed.left().await, 5, "given back once");

    let taken = testbed.take(&one, "k", 2).await;
    let again = two.take_once(&testbed.purchase("k", 2).await, in_a_minute()).await.expect("taken");
    assert_eq!((again, testbed.left().await), (Take::Again, 3));
    // The second try may be selling them: the first must not give them back.
    one.untake(&taken).await;
    assert_eq!(testbed.left().await, 3);

    // Another quantity or another key is another request.
    testbed.take(&two, "k", 1).await;
    let too_many =
        two.take_once(&testbed.purchase("l", 3).await, in_a_minute()).await.expect("asked");
    assert_eq!((too_many, testbed.left().await), (Take::NothingLeft, 2));
}

#[tokio::test]
async fn what_was_taken_under_an_older_load_counts_for_nothing() {
    let testbed = GateTestbed::new().await;
    let counters = testbed.counters();
    let taken = testbed.take(&counters, "k", 2).await;
    // The counter is lost and what the requests took is not: it is loaded from the ledger, which
    // knows nothing of this purchase.
    let () = testbed.shop.redis(&["DEL", &counters.key(testbed.item)]).await;
    testbed.take(&counters, "k", 2).await;
    assert_eq!(testbed.left().await, 3);
    counters.untake(&taken).await;
    assert_eq!(testbed.left().await, 3, "the older load's units are in the ledger's figure");
}

#[tokio::test]
async fn buckets_give_exactly_what_is_there() {
    let testbed = GateTestbed::new().await;
    let (one, two) = (testbed.buckets(), testbed.buckets());
    let three = one.take(testbed.item, 3, 6, in_a_minute()).await.expect("taken");
    assert!(matches!(three, Gathered::All(_)), "{three:?}");
    // Two are left: too few for three, and the attempt leaves them there.
    for buckets in [&one, &two] {
        let too_many = buckets.take(testbed.item, 3, 0, in_a_minute()).await.expect("asked");
        assert!(matches!(too_many, Gathered::TooFew { .. }), "{too_many:?}");
    }
    let rest = two.take(testbed.item, 2, 3, in_a_minute()).await.expect("taken");
    let Gathered::All(parts) = rest else { panic!("{rest:?}") };
    let Ok(Gathered::TooFew { epoch }) = one.take(testbed.item, 1, 0, in_a_minute()).await else {
        panic!("a sixth unit of five");
    };
    two.give_back(&parts).await;
    let back = one.take(testbed.item, 2, 0, in_a_minute()).await.expect("taken");
    assert!(matches!(back, Gathered::All(_)), "{back:?}");
    // Of all who see the same empty load one loads again.
    join_all((0..8).map(|_| async {
        two.load_again(testbed.item, epoch, in_a_minute()).await.expect("loaded");
    }))
    .await;
    let all = one.take(testbed.item, 5, 0, in_a_minute()).await.expect("taken");
    assert!(matches!(all, Gathered::All(_)), "the ledger has sold none: {all:?}");
    two.give_back(&parts).await;
    let stale = one.take(testbed.item, 1, 0, in_a_minute()).await.expect("asked");
    assert!(matches!(stale, Gathered::TooFew { .. }), "parts of an older load: {stale:?}");
}

#[tokio::test]
async fn units_that_came_back_are_sold() {
    let testbed = GateTestbed::new().await;
    for strategy in ["memory-mutex", "mysql-for-update", "redis-bucket", "redis-lua"] {
        let item = testbed.instance.make_item(json!({ "stock": 1 })).await;
        let buy = async |id: i64| testbed.instance.buyer(id).buy(strategy, item).await;
        let order = order_id(&buy(1).await);
        assert_eq!(buy(2).await.brief(), (409, "sold_out"), "{strategy}");
        testbed.instance.buyer(1).step(&order, "cancellation").await.expect_status(200);
        until("the unit to be sold again", || buy(3), |answer| answer.status == 201).await;
        let audit = testbed.instance.audit(item).await;
        assert_eq!((&audit["held"], &audit["oversold"]), (&json!(1), &json!(0)), "{strategy}");
    }
}

fn bucket_key(shop: &Shop, item: i64, bucket: u32) -> String {
    format!("{}{{item:{item}:{bucket}}}:stock", shop.config.redis.prefix)
}

#[tokio::test]
async fn an_emptied_redis_sells_no_unit_of_a_bucket_twice() {
    let testbed = GateTestbed::new().await;
    let item = testbed.instance.make_item(json!({ "stock": 9, "arbiter": "off" })).await;
    let mut sold = 0;
    for id in 1..=30 {
        if id == 5 {
            for bucket in 0..8 {
                let () =
                    testbed.shop.redis(&["DEL", &bucket_key(&testbed.shop, item, bucket)]).await;
            }
        }
        sold += i64::from(testbed.instance.buyer(id).buy("redis-bucket", item).await.status == 201);
    }
    assert_eq!(sold, 9);
}

/// The arbiter compares the version or the timestamp that the gate has read.
#[tokio::test]
async fn a_write_that_compares_an_old_row_changes_nothing() {
    let testbed = GateTestbed::new().await;
    let arbiter = Arbiter::new(testbed.shop.pool.clone(), Metrics::new());
    let row = testbed.shop.stock_row(testbed.item).await;
    let by_version = StockWrite::GuardedByVersion(row.version);
    // A second before, since two changes in one second look like one.
    let by_timestamp = StockWrite::GuardedByTimestamp(row.changed_at - time::Duration::SECOND);
    let attempts = [("new", by_version), ("version", by_version), ("timestamp", by_timestamp)];
    for (key, stock) in attempts {
        let purchase = testbed.purchase(key, 1).await;
        let write = OrderWrite { purchase: &purchase, fence: None, stock, deadline: None };
        let answer = arbiter.write(&write).await;
        match key {
            "new" => assert!(matches!(answer, Ok(Outcome::Sold(_))), "{answer:?}"),
            _ => assert_eq!(answer, Err(Conflict::Stale), "an old {key}"),
        }
    }
    let after = testbed.shop.stock_row(testbed.item).await;
    assert_eq!((after.available, after.version), (4, row.version + 1));
}

#[tokio::test]
async fn a_handshake_that_was_cut_is_made_again() {
    let server = own_redis(1, &[]).await.remove(0);
    let link = link_to(&server.tcp_url()).await;
    // The first connection ends in the middle of an answer.
    link.trap(Trap::at_answer().reset());
    let mut config = Config::defaults();
    config.redis_url = Secret::new(link.url());
    let redis = RedisClient::new(&config).expect("the URL is fine");
    assert!(redis.ping().await.is_err());
    eventually("Redis to be used again", || async { redis.ping().await.ok() }).await;
}

#[tokio::test]
async fn drift_of_buckets_is_repaired_when_two_looks_agree() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 9 })).await;
    assert_eq!(instance.buyer(1).buy("redis-bucket", item).await.status, 201);
    for planted in ["-1", "5"] {
        let key = bucket_key(&shop, item, 3);
        let () = shop.redis(&["HINCRBY", &key, "available", planted]).await;
        assert_clean(&instance, item).await;
    }
}

#[tokio::test]
async fn buckets_that_changed_meanwhile_are_not_repaired() {
    let testbed = GateTestbed::new().await;
    let buckets = testbed.buckets();
    let Ok(Gathered::All(parts)) = buckets.take(testbed.item, 2, 0, in_a_minute()).await else {
        panic!("taken")
    };
    let seen = buckets.peek(testbed.item).await.expect("read").expect("loaded");
    assert_eq!(seen.iter().map(|part| part.available).sum::<i64>(), 3);
    buckets.give_back(&parts).await;
    // Five are there by now: the two that the look missed must not be added to another bucket.
    let done = buckets.repair(testbed.item, &seen, 5).await.expect("asked");
    assert!(!done, "a bucket was set although it had changed since the look");
    let all = buckets.peek(testbed.item).await.expect("read").expect("loaded");
    assert_eq!(all.iter().map(|part| part.available).sum::<i64>(), 5);
}

#[tokio::test]
async fn a_counter_that_changed_meanwhile_is_not_repaired() {
    let testbed = GateTestbed::new().await;
    let counters = testbed.counters();
    assert_eq!(testbed.left().await, 5);
    let seen = counters.peek_with_queue(testbed.item).await.expect("read").expect("loaded");
    testbed.take(&counters, "k", 2).await;
    let version = testbed.shop.stock_row(testbed.item).await.version;
    let done = counters.repair(testbed.item, seen, 5, version).await.expect("asked");
    assert!(!done, "units are on their way into an order");
    assert_eq!(testbed.left().await, 3);
}

/// Under one hold of the lock, the stock that was read has units for the first buyers only. When one
/// of those buyers is refused, the next buyer gets the unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_buyer_of_a_hold_leaves_the_unit_to_the_next() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 2 }), patient).await;
    // The first purchase's transaction waits for this row; later purchases form one batch.
    let holder = hold_stock_row(&shop.pool, item).await;
    let mut presses = Vec::new();
    for (before, buyer) in [9, 1, 2].into_iter().enumerate() {
        presses.push(instance.buyer(buyer).buying("lock-redis", item));
        until_in_flight(&instance, before + 1).await;
        // Otherwise the next buyer may still come into the first batch. If the second one does, its limit is locked by
        // a transaction that waits for this row, and the statement below would wait for that transaction.
        until_running(&shop.pool, "%UPDATE stock%", 1).await;
    }
    // Meanwhile the second buyer reaches the limit by another way.
    let limit = "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, 1, 1, 1)";
    shop.change(sqlx::query(limit).bind(item)).await;
    holder.rollback().await.expect("the row is free");
    let answers = join_all(presses).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("no panic")).collect();
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    // The second buyer is at the limit; on a busy machine the third one may be first, and the unit is gone then.
    assert_eq!(statuses, [201, 409, 201], "{}", answers[1].text);
}
