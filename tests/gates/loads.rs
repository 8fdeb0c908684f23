//! Loads of the counters in Redis: what happens when one is slow, and when the ledger changes at
//! the same time. The arbiter is off in most of these tests: then a unit that is counted twice is
//! a unit that is sold twice.

use gates::redis_store::{Buckets, Counters, Gathered, Take};
use sqlx::MySql;
use sqlx::pool::PoolConnection;

use crate::support;
use crate::support::prelude::*;

const STRATEGY: &str = "redis-lua";
/// The claim of an item's first load.
const FIRST_EPOCH: &str = "INSERT INTO redis_counters (item_id, epoch) VALUES (?, 1)";

/// A shop without reconciliation and with patience for a link that is held up.
async fn shop() -> Shop {
    Shop::with(|config| {
        config.job.reconcile_period_ms = 3_600_000;
        config.redis.command_timeout_ms = 9_000;
        config.purchase.deadline_ms = 9_500;
        config.lock.lease_ms = 30_000;
        config.mysql.lock_wait_timeout_seconds = 20;
    })
    .await
}

async fn lab_item(instance: &Instance) -> ItemId {
    let body = json!({ "stock": 5, "per_buyer_limit": 9, "arbiter": "off" });
    ItemId::new(instance.make_item(body).await).expect("positive")
}

/// Locks the table of the stock: each read of the stock waits.
async fn lock_stock(shop: &Shop) -> PoolConnection<MySql> {
    let mut holder = shop.pool.acquire().await.expect("a connection");
    sqlx::raw_sql("LOCK TABLES stock WRITE").execute(&mut *holder).await.expect("locked");
    holder
}

async fn unlock(mut holder: PoolConnection<MySql>) {
    sqlx::raw_sql("UNLOCK TABLES").execute(&mut *holder).await.expect("unlocked");
}

/// The shop, with its Redis behind a link.
pub fn by_way_of(link: &FaultyLink, shop: &Shop) -> Shop {
    let config = Config { redis_url: Secret::new(link.url()), ..shop.config.clone() };
    Shop { config, pool: shop.pool.clone() }
}

/// A shop with an item, a link to its Redis, and the counters of two instances; those of the other one use the link.
async fn two_ways() -> (Shop, ItemId, FaultyLink, Counters, Counters) {
    let (shop, instance) = shop().await.opened().await;
    let item = lab_item(&instance).await;
    let link = link_to(&redis_url().await).await;
    let there = by_way_of(&link, &shop).counters();
    let here = shop.counters();
    (shop, item, link, here, there)
}

async fn purchase(shop: &Shop, item: ItemId, key: &str, units: u32) -> Purchase {
    let purchase = support::purchase(shop, item, units, (STRATEGY, key)).await;
    Purchase { buyer: UserId::new(3).expect("positive"), ..purchase }
}

async fn epoch(shop: &Shop, table: &str, item: ItemId) -> Option<u64> {
    let statement = format!("SELECT epoch FROM {table} WHERE item_id = ?");
    let row = sqlx::query_scalar(&statement).bind(item.get());
    row.fetch_optional(&shop.pool).await.expect("asked")
}

/// Waits until the first load has its epoch.
async fn first_load(shop: &Shop, item: ItemId) {
    let epoch = || epoch(shop, "redis_counters", item);
    until("the first load", epoch, |epoch| *epoch == Some(1)).await;
}

/// Waits until `count` loads wait for the lock of the stock row.
async fn loads_that_wait(shop: &Shop, count: i64) {
    until_running(&shop.pool, "SELECT%FROM stock%", count).await;
}

/// The first load is slow, so another instance loads too; what is taken meanwhile from the first
/// load is not there again after the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_was_given_up_and_ends_all_the_same_counts_no_unit_twice() {
    let (shop, item, link, here, there) = two_ways().await;
    let wanted = purchase(&shop, item, "k", 2).await;
    let holder = lock_stock(&shop).await;
    let taking = tokio::spawn(async move { here.take_once(&wanted, in_a_minute()).await });
    first_load(&shop, item).await;
    let reading = tokio::spawn(async move { there.read(item, in_a_minute()).await });
    loads_that_wait(&shop, 2).await;
    // The second one has the stock now, and is held up on its way to Redis.
    link.set(Fault::Stall);
    unlock(holder).await;
    let taken = taking.await.expect("no panic").expect("taken");
    assert!(matches!(taken, Take::First(_)), "{taken:?}");
    link.mend();
    let read = reading.await.expect("no panic").expect("read");
    assert_eq!(read.available, 3, "two units are taken and on their way into an order");
    assert_eq!(shop.counters().read(item, in_a_minute()).await.expect("read").available, 3);
}

/// The first load is held up on its way to Redis; another instance loads and sells meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_comes_late_changes_nothing() {
    let (shop, item, link, here, there) = two_ways().await;
    let holder = lock_stock(&shop).await;
    let reading = tokio::spawn(async move { there.read(item, in_a_minute()).await });
    loads_that_wait(&shop, 1).await;
    link.set(Fault::Stall);
    unlock(holder).await;
    let taken =
        here.take_once(&purchase(&shop, item, "k", 2).await, in_a_minute()).await.expect("taken");
    assert!(matches!(taken, Take::First(_)), "{taken:?}");
    link.mend();
    let read = reading.await.expect("no panic").expect("read");
    assert_eq!((read.available, read.epoch), (3, 2), "the later load stays");
}

/// The first load is held up before it has marked the counter; the mark comes after another load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_comes_late_changes_nothing() {
    let (shop, item, link, here, there) = two_ways().await;
    let claimed = shop.hold(sqlx::query(FIRST_EPOCH).bind(item.get())).await;
    let reading = tokio::spawn(async move { there.read(item, in_a_minute()).await });
    until_running(&shop.pool, "INSERT IGNORE INTO redis_counters%", 1).await;
    link.set(Fault::Stall);
    claimed.rollback().await.expect("the row is free");
    first_load(&shop, item).await;
    let taken =
        here.take_once(&purchase(&shop, item, "k", 2).await, in_a_minute()).await.expect("taken");
    assert!(matches!(taken, Take::First(_)), "{taken:?}");
    link.mend();
    let read = reading.await.expect("no panic").expect("read");
    assert_eq!((read.available, read.epoch), (3, 2), "two units are on their way into an order");
}

/// The load that was waited for in vain is complete by the time at which another one begins, and
/// units of it are on their way into an order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_ended_before_it_was_taken_over_is_kept() {
    let (shop, instance) = shop().await.opened().await;
    let item = lab_item(&instance).await;
    let (here, there) = (shop.counters(), shop.counters());
    let wanted = purchase(&shop, item, "k", 2).await;
    let holder = lock_stock(&shop).await;
    let taking = tokio::spawn(async move { here.take_once(&wanted, in_a_minute()).await });
    first_load(&shop, item).await;
    // The other one waits in vain, and is held up when it takes the next epoch.
    let claim = "SELECT epoch FROM redis_counters WHERE item_id = ? FOR UPDATE";
    let claims = shop.hold(sqlx::query(claim).bind(item.get())).await;
    let reading = tokio::spawn(async move { there.read(item, in_a_minute()).await });
    until_running(&shop.pool, "UPDATE redis_counters%", 1).await;
    unlock(holder).await;
    let taken = taking.await.expect("no panic").expect("taken");
    assert!(matches!(taken, Take::First(_)), "{taken:?}");
    claims.rollback().await.expect("the row is free");
    let read = reading.await.expect("no panic").expect("read");
    assert_eq!((read.available, read.epoch), (3, 2), "two units are on their way into an order");
}

/// The cancellation is in the ledger, and its instance has not told the counter yet. Meanwhile the
/// counter is loaded from that ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_a_load_knew_already_is_not_counted_again() {
    let shop = shop().await;
    let link = link_to(&redis_url().await).await;
    let instance = by_way_of(&link, &shop).start().await;
    let item = lab_item(&instance).await;
    let order = instance.buyer(1).buy(STRATEGY, item.get()).await.expect_status(201);
    let path = format!("/api/orders/{}/cancellation", order.json["id"].as_str().expect("an id"));
    let here = shop.counters();
    let key = here.key(item);
    let restock = format!("/api/admin/items/{item}");
    for round in 0..2 {
        let before = shop.stock_row(item).await.version;
        link.set(Fault::Stall);
        let (buyer, admin, path, restock) =
            (instance.buyer(1), instance.admin(), path.clone(), restock.clone());
        let changing = tokio::spawn(async move {
            match round {
                0 => buyer.post(&path, &json!({})).await.status,
                _ => admin.patch(&restock, &json!({ "stock_delta": 4 })).await.status,
            }
        });
        let now = || async { shop.stock_row(item).await.version };
        until("the change to be in the ledger", now, |now| *now > before).await;
        let () = shop.redis(&["DEL", &key]).await;
        let loaded = here.read(item, in_a_minute()).await.expect("loaded").available;
        link.mend();
        assert_eq!(changing.await.expect("no panic"), 200);
        let ledger = shop.stock_row(item).await.available;
        let told = here.read(item, in_a_minute()).await.expect("read").available;
        assert_eq!((loaded, told), (ledger, ledger), "round {round}: counter against ledger");
    }
    // A change that no load knew is told.
    instance.admin().patch(&restock, &json!({ "stock_delta": -1 })).await.expect_status(200);
    assert_eq!(here.read(item, in_a_minute()).await.expect("read").available, 8);
}

/// Nobody can load the counters or read the stock: a purchase says "try again" when its gate may wait no longer, before
/// its outcome is unknown. The deadline of the shop's buyers is far behind that time, and the load fails between the two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_waits_for_a_load_no_longer_than_its_gate_may() {
    const STRATEGIES: [&str; 9] = [
        "redis-lua",
        "redis-bucket",
        "redis-stream",
        "redis-watch",
        "redis-naive",
        "memory-naive",
        "mysql-naive",
        "mysql-mutex-in-tx",
        "mysql-version",
    ];
    let mut shop = shop().await;
    // The item is not read again while the table is locked.
    shop.config.purchase.item_age_ms_max = 60_000;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    instance.buyer(99).buy("mysql-atomic", item).await.expect_status(201);
    let holder = lock_stock(&shop).await;
    let presses = (1..).zip(STRATEGIES);
    let presses = presses.map(async |(id, strategy)| instance.buyer(id).buy(strategy, item).await);
    let answers = join_all(presses).await;
    unlock(holder).await;
    for (strategy, answer) in STRATEGIES.iter().zip(&answers) {
        assert_eq!(answer.brief(), (503, "contended"), "{strategy}: {}", answer.text);
    }
}

/// The buckets are empty, and the ledger still has their units. Nobody can take the number of their next load, or put
/// the item's queue on the list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_waits_for_the_rows_of_its_lists_no_longer_than_it_may() {
    let (shop, instance) = shop().await.opened().await;
    let item = ItemId::new(instance.make_item(json!({ "stock": 5 })).await).expect("positive");
    let all =
        Buckets::beside(&shop.counters()).take(item, 5, 0, in_a_minute()).await.expect("taken");
    assert!(matches!(all, Gathered::All(_)), "{all:?}");
    let mut holder = shop.pool.begin().await.expect("a transaction");
    for statement in [
        "SELECT epoch FROM redis_buckets WHERE item_id = ? FOR UPDATE",
        "INSERT INTO redis_queues (item_id, opened_at) VALUES (?, UTC_TIMESTAMP(6))",
    ] {
        sqlx::query(statement).bind(item.get()).execute(&mut *holder).await.expect("locked");
    }
    let [bucket, stream] = [instance.buyer(1), instance.buyer(2)];
    let presses = [bucket.buy("redis-bucket", item.get()), stream.buy("redis-stream", item.get())];
    let answers = join_all(presses).await;
    holder.rollback().await.expect("the rows are free");
    for answer in &answers {
        assert_eq!(answer.brief(), (503, "contended"), "{}", answer.text);
    }
}

/// The counter of an item cannot be loaded, and its buyers take all their turns: those of another item have their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_turns_of_an_item_are_its_own() {
    let (shop, instance, stuck) = Shop::selling_with(json!({}), patient).await;
    let other = instance.make_item(json!({})).await;
    instance.buyer(8).buy("redis-watch", other).await.expect_status(201);
    let holder = shop.hold(sqlx::query(FIRST_EPOCH).bind(stuck)).await;
    let presses = [1, 2, 3, 4].map(|buyer| instance.buyer(buyer).buying("redis-watch", stuck));
    until_in_flight(&instance, 4).await;
    until_running(&shop.pool, "INSERT IGNORE INTO redis_counters%", 1).await;
    instance.buyer(9).buy("redis-watch", other).await.expect_status(201);
    assert!(presses.iter().all(|press| !press.is_finished()), "the other buyer waited for them");
    holder.rollback().await.expect("the row is free");
}

/// A claim that comes late must not set the ledger's epoch back: then a load that is in use would
/// be loaded again.
#[tokio::test]
async fn a_late_claim_of_a_load_changes_nothing() {
    let (shop, instance) = shop().await.opened().await;
    let item = lab_item(&instance).await;
    let buckets = Buckets::beside(&shop.counters());
    for first in 1..=2 {
        let all = buckets.take(item, 5, 0, in_a_minute()).await.expect("taken");
        assert!(matches!(all, Gathered::All(_)), "{all:?}");
        buckets.load_again(item, first, in_a_minute()).await.expect("loaded");
    }
    let all = buckets.take(item, 5, 0, in_a_minute()).await.expect("taken");
    assert!(matches!(all, Gathered::All(_)), "{all:?}");
    buckets.load_again(item, 1, in_a_minute()).await.expect("asked");
    assert_eq!(epoch(&shop, "redis_buckets", item).await, Some(3));
    let more = buckets.take(item, 1, 0, in_a_minute()).await.expect("asked");
    assert_eq!(more, Gathered::TooFew { epoch: 3 }, "all units are on their way into orders");
}

/// What requests took is remembered for a while, not for the whole sale; and a request that is
/// still asked for stays known.
#[tokio::test]
async fn requests_that_took_are_forgotten_after_a_while() {
    let (shop, instance) = shop().await.opened().await;
    let item = lab_item(&instance).await;
    let counters = shop.counters();
    let key = format!("{}{{item:{item}}}:takes", shop.config.redis.prefix);
    let take = async |key: &str| {
        counters
            .take_once(&purchase(&shop, item, key, 1).await, in_a_minute())
            .await
            .expect("asked")
    };
    let first = take("first").await;
    assert!(matches!(first, Take::First(_)), "{first:?}");
    assert!(matches!(take("asked-again").await, Take::First(_)));
    // As if its time were over, twice.
    let time_is_over = async || {
        let () = shop.redis(&["HSET", &key, "since", "1"]).await;
    };
    time_is_over().await;
    assert!(matches!(take("second").await, Take::First(_)));
    assert_eq!(take("asked-again").await, Take::Again, "within the time that is promised");
    time_is_over().await;
    assert!(matches!(take("third").await, Take::First(_)));
    for known in ["asked-again", "second", "third"] {
        assert_eq!(take(known).await, Take::Again, "{known}");
    }
    let mut fields = 0;
    for key in [&key, &format!("{key}-before")] {
        let all: Vec<String> = shop.redis(&["HKEYS", key]).await;
        assert!(all.iter().all(|field| !field.ends_with(":first")), "{all:?}");
        fields += all.len();
    }
    assert!(fields <= 5, "{fields} fields");
    // The request that was forgotten is another one: it takes again, and gives back by itself.
    let Take::First(taken) = take("first").await else { panic!("forgotten") };
    let before = counters.read(item, in_a_minute()).await.expect("read").available;
    counters.untake(&taken).await;
    assert_eq!(counters.read(item, in_a_minute()).await.expect("read").available, before + 1);
}
