//! Items that are asked for in the same moment are read together, and each has its own trouble.

use gates::redis_store::Counters;
use ledger::Ledger;
use ledger::waiting_list::WaitingLine;
use seckill::catalog::Catalog;
use shop_domain::ProductId;

use crate::support::prelude::*;

/// Nothing in the cache is young enough.
const FRESH: Duration = Duration::ZERO;

/// A catalog whose pool has a single connection.
fn catalog(shop: &Shop) -> (Catalog, Database) {
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("the URL is fine");
    let metrics = Metrics::new();
    let counters = Counters::new(shop.redis_client(), pool.clone(), metrics.clone());
    let breaker = Breakers::new(&metrics).mysql;
    let clock = Clock::default();
    let line = WaitingLine::new(clock.clone(), Outbox::default(), metrics, 1);
    (Catalog::new(Ledger::new(pool.clone(), breaker), counters, clock, line), pool)
}

async fn make_items(instance: &Instance, count: usize) -> Vec<ItemId> {
    let items = instance.make_items(count, &json!({ "stock": 7 })).await;
    items.into_iter().map(|id| ItemId::new(id).expect("positive")).collect()
}

/// The prepared statements that the catalog's connection has executed.
async fn statements(pool: &Database) -> i64 {
    let read = sqlx::query_as("SHOW SESSION STATUS LIKE 'Com_stmt_execute'");
    let (_, count): (String, String) = read.fetch_one(pool).await.expect("a figure of the session");
    count.parse().expect("a number")
}

#[tokio::test]
async fn items_that_are_asked_for_together_are_read_with_one_statement() {
    let (shop, instance) = Shop::open().await;
    let items = make_items(&instance, 100).await;
    let (catalog, pool) = catalog(&shop);
    for crowd in [1, 3] {
        let before = statements(&pool).await;
        let asked = (0..crowd).flat_map(|_| &items).map(|id| catalog.find_recent(*id, FRESH));
        for (found, id) in join_all(asked).await.into_iter().zip(items.iter().cycle()) {
            let stocked = found.expect("the ledger answers").value.expect("there is one");
            assert_eq!((stocked.item.id, stocked.available), (*id, 7));
        }
        // The statements of the crowd, and the one that counts.
        let executed = statements(&pool).await - before - 1;
        assert!(executed <= 3 * crowd, "{executed} statements");
    }
}

/// Strangers who load the list or a product in a loop must not use the connections that payments need.
#[tokio::test]
async fn all_who_read_the_list_or_a_product_at_once_share_a_read() {
    const READERS: usize = 300;
    let (shop, instance, item) = Shop::selling(json!({ "kind": "shop" })).await;
    let body = json!({ "name": "A thing in sizes" });
    let product = instance.admin().post("/api/admin/products", &body).await.expect_status(201);
    let product = ProductId::new(product.json["id"].as_i64().expect("an id")).expect("positive");
    let (catalog, pool) = catalog(&shop);
    let before = statements(&pool).await;
    for listed in join_all((0..READERS).map(|_| catalog.list_shop())).await {
        let listed = listed.expect("the ledger answers");
        let ids: Vec<_> = listed.value.iter().map(|stocked| stocked.item.id.get()).collect();
        assert_eq!((ids, listed.age), (vec![item], None));
    }
    for found in join_all((0..READERS).map(|_| catalog.product_with_items(product))).await {
        let found = found.expect("the ledger answers").expect("there is one");
        assert_eq!((found.product.id, found.items.len()), (product, 0));
    }
    // A read of the list is one statement, and a read of a product two; one more counts.
    let executed = statements(&pool).await - before - 1;
    assert!(executed <= 9, "{executed} statements for {READERS} readers");
}

/// A read that began before the caller came does not answer the caller: who has changed an item sees the change.
#[tokio::test]
async fn a_list_after_a_change_has_the_change() {
    let (shop, instance, item) = Shop::selling(json!({ "kind": "shop" })).await;
    let (catalog, _) = catalog(&shop);
    let readers = (0..50).map(|_| catalog.list_shop());
    let changer = async {
        instance.admin().edit(item, json!({ "paused": true })).await.expect_status(200);
        let listed = catalog.list_shop().await.expect("the ledger answers");
        assert!(listed.value[0].item.paused, "the list is older than the change");
    };
    tokio::join!(join_all(readers), changer);
}

#[tokio::test]
async fn a_damaged_or_missing_item_hides_no_other() {
    let (shop, instance) = Shop::open().await;
    let mut items = make_items(&instance, 3).await;
    let damage = "UPDATE items SET kind = 'other', arbiter = 'on' WHERE id = ?";
    shop.change(sqlx::query(damage).bind(items[1].get())).await;
    items.push(ItemId::new(999_999).expect("positive"));
    let (catalog, _) = catalog(&shop);
    let found = join_all(items.iter().map(|id| catalog.find_recent(*id, FRESH))).await;
    let read = |index: usize| found[index].as_ref().map(|seen| seen.value.is_some()).ok();
    let expected = [Some(true), None, Some(true), Some(false)];
    assert_eq!([read(0), read(1), read(2), read(3)], expected, "{found:?}");
}
