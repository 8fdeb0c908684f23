//! `mysql-unit-rows`: its rows are a bounded part of the stock, come back with units that are returned, and are
//! counted after a crash.

use extension::job::Job;
use ledger::rows::tables::unit_rows::POOL_MAX;
use seckill::job::Reconcile;

use crate::support::prelude::*;

const STRATEGY: &str = "mysql-unit-rows";
const NEVER_MS: u64 = 3_600_000;

/// A shop without a reconciliation, which the tests run themselves.
async fn shop() -> (Shop, Instance) {
    Shop::open_with(|config| config.job.reconcile_period_ms = NEVER_MS).await
}

/// The free rows of an item, and those that are taken and not counted yet.
async fn rows(shop: &Shop, item: i64) -> (i64, i64) {
    let count =
        "SELECT COUNT(*) - COUNT(order_id), COUNT(order_id) FROM unit_rows WHERE item_id = ?";
    sqlx::query_as(count).bind(item).fetch_one(&shop.pool).await.expect("counted")
}

async fn available(shop: &Shop, item: i64) -> i64 {
    shop.read(sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ?").bind(item)).await
}

async fn reconcile(shop: &Shop) -> String {
    let job = Reconcile::new(shop.pool.clone(), shop.counters(), Metrics::new());
    job.run().await.expect("it runs")
}

async fn execute(shop: &Shop, statement: &str, item: i64) {
    shop.change(sqlx::query(statement).bind(item)).await;
}

async fn restock(instance: &Instance, item: i64, units: i64) -> Answer {
    instance.admin().edit(item, json!({ "stock_delta": units })).await
}

#[tokio::test]
async fn an_item_of_a_million_units_has_a_thousand_rows_and_gets_more_when_they_are_sold() {
    let (shop, instance) = shop().await;
    let item = instance.make_item(json!({ "stock": 1_000_000, "per_buyer_limit": 1_000 })).await;
    assert_eq!(rows(&shop, item).await, (0, 0), "rows are made when somebody buys");
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201);
    let most = i64::from(POOL_MAX);
    assert_eq!(rows(&shop, item).await, (most - 1, 0));
    // More than are free: the pool is filled to the brim, and all of it is taken.
    let path = purchase_path(STRATEGY, item);
    instance.buyer(2).post(&path, &json!({ "quantity": POOL_MAX })).await.expect_status(201);
    assert_eq!(rows(&shop, item).await, (0, 0));
    assert_eq!(instance.buyer(3).buy(STRATEGY, item).await.status, 201);
    assert_eq!(rows(&shop, item).await, (most - 1, 0));
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn units_that_come_back_are_sold_and_units_that_go_are_not() {
    for arbiter in ["on", "off"] {
        let (shop, instance) = shop().await;
        let item = instance.make_item(json!({ "stock": 2, "arbiter": arbiter })).await;
        let sold = instance.buyer(1).buy(STRATEGY, item).await;
        assert_eq!(rows(&shop, item).await, (1, 0), "{arbiter}");
        let order = sold.json["id"].as_str().expect("an id");
        assert_eq!(instance.buyer(1).step(order, "cancellation").await.status, 200);
        assert_eq!(restock(&instance, item, 1).await.status, 200);
        // 3 units, of which one has a row; two go, so that one is left.
        assert_eq!(restock(&instance, item, -2).await.status, 200);
        assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.status, 201, "{arbiter}");
        assert_eq!(instance.buyer(3).buy(STRATEGY, item).await.brief(), (409, "sold_out"));
        assert_eq!(restock(&instance, item, 5).await.status, 200);
        assert_eq!(instance.buyer(4).buy(STRATEGY, item).await.status, 201, "{arbiter}");
        assert_eq!(rows(&shop, item).await, (4, 0));
        assert_eq!(restock(&instance, item, -4).await.status, 200, "{arbiter}");
        assert_eq!(rows(&shop, item).await, (0, 0), "{arbiter}");
        assert_eq!(instance.buyer(5).buy(STRATEGY, item).await.brief(), (409, "sold_out"));
        assert_clean(&instance, item).await;
    }
}

#[tokio::test]
async fn a_locked_row_is_skipped_and_is_no_sold_out_and_comes_back_with_the_rollback() {
    let (shop, instance) = shop().await;
    let item = instance.make_item(json!({ "stock": 3, "arbiter": "off" })).await;
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201);
    let mut other = shop.pool.for_locks().begin().await.expect("a connection");
    let lock = "SELECT unit FROM unit_rows WHERE item_id = ? LIMIT 1 FOR UPDATE";
    let lock = sqlx::query_scalar(lock).bind(item);
    let locked: u32 = lock.fetch_one(&mut *other).await.expect("locked");
    assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.status, 201, "the other row");
    // A restock cannot take out what is just being bought.
    assert_eq!(restock(&instance, item, -1).await.status, 422);
    let waiting = instance.buyer(3);
    let waiting = tokio::spawn(async move { waiting.buy_for_good(STRATEGY, item).await });
    until_in_flight(&instance, 1).await;
    assert!(!waiting.is_finished(), "row {locked} may come back");
    other.rollback().await.expect("rolled back");
    assert_eq!(waiting.await.expect("an answer").status, 201);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn the_reconciliation_counts_what_a_crash_left_and_removes_rows_that_are_too_many() {
    let (shop, instance) = shop().await;
    let item = instance.make_item(json!({ "stock": 5, "arbiter": "off" })).await;
    let sold = instance.buyer(1).buy(STRATEGY, item).await;
    // As if its process had ended between the order's COMMIT and the count.
    let id = sold.json["id"].as_str().expect("an id");
    let crashed = format!(
        "INSERT INTO unit_rows (item_id, unit, order_id) SELECT ?, 1 + MAX(unit), '{id}' FROM unit_rows"
    );
    execute(&shop, &crashed, item).await;
    execute(&shop, "UPDATE stock SET available = available + 1 WHERE item_id = ?", item).await;
    assert_eq!(instance.audit(item).await["clean"], false);
    assert!(reconcile(&shop).await.ends_with("rows of units of 1 items settled"));
    assert_eq!((rows(&shop, item).await, available(&shop, item).await), ((4, 0), 4));
    assert_eq!(instance.audit(item).await["clean"], true);

    let mixed = instance.make_item(json!({ "stock": 5 })).await;
    assert_eq!(instance.buyer(1).buy(STRATEGY, mixed).await.status, 201);
    assert_eq!(instance.buyer(2).buy("mysql-batch", mixed).await.status, 201);
    let audit = instance.audit(mixed).await;
    assert_eq!(audit["clean"], false, "4 rows, 3 units: {audit}");
    reconcile(&shop).await;
    assert_eq!(rows(&shop, mixed).await, (3, 0));
    assert_eq!(instance.audit(mixed).await["clean"], true);
    assert!(!reconcile(&shop).await.contains("settled"));

    let end = "UPDATE items SET ends_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = ?";
    execute(&shop, end, mixed).await;
    reconcile(&shop).await;
    assert_eq!(rows(&shop, mixed).await, (0, 0), "the sale is over");
}

/// Otherwise the rows of all items behind it would stay: each run begins with the same item.
#[tokio::test]
async fn an_item_whose_stock_row_is_held_does_not_keep_others_from_being_settled() {
    let (shop, instance) = Shop::open_with(|config| {
        config.job.reconcile_period_ms = NEVER_MS;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await;
    let first = instance.make_item(json!({ "stock": 5 })).await;
    let second = instance.make_item(json!({ "stock": 5 })).await;
    let end = "UPDATE items SET ends_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = ?";
    for item in [first, second] {
        assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201);
        execute(&shop, end, item).await;
    }
    let held = hold_stock_row(&shop.pool, first).await;
    let job = Reconcile::new(shop.pool.clone(), shop.counters(), Metrics::new());
    assert!(job.run().await.is_err(), "one item was not settled");
    assert_eq!(rows(&shop, first).await, (4, 0));
    assert_eq!(rows(&shop, second).await, (0, 0));
    held.rollback().await.expect("the row is free");
    assert!(job.run().await.is_ok_and(|said| said.ends_with("of 1 items settled")));
    assert_eq!(rows(&shop, first).await, (0, 0));
}
