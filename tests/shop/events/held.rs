//! Events while others hold rows of the outbox: a purchase that is not committed delays its own event alone, and a
//! relay whose end is not decided is waited for.

use dev_servers::VitessCluster;
use events::sql::event_log;
use shop_domain::OrderId;
use sqlx::{MySqlConnection, MySqlPool};

use super::*;
use crate::ledger::reparents::can_start;
use crate::support::shards::clustered_shop;

/// Items that Vitess puts into two shards, one into each.
const APART: [i64; 2] = [1, 6];
/// Events of each item behind the one that is held: more than a relay moves at once.
const OTHERS: i64 = 150;
const TOLD: &str = "SELECT COUNT(*) FROM event_log";

/// Writes an event of an item, as a purchase does; its id.
async fn write_event(transaction: &mut MySqlConnection, item: i64) -> String {
    let id = OrderId::generate().to_string();
    let insert = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, created_at, item_id) \
         VALUES (?, 'orders', 'ledger', 'orders.changed', '{\"orders\": []}', UTC_TIMESTAMP(6), ?)";
    sqlx::query(insert).bind(&id).bind(item).execute(transaction).await.expect("written");
    id
}

/// Writes events of an item, and commits them together.
async fn commit_events(shop: &Shop, item: i64, events: i64) {
    let mut transaction = shop.pool.begin().await.expect("begun");
    for _ in 0..events {
        write_event(&mut transaction, item).await;
    }
    transaction.commit().await.expect("committed");
}

/// The events that wait are counted among a limited count of numbers, however many wait.
#[tokio::test]
async fn events_that_wait_are_counted_within_a_limit() {
    let shop = Shop::new().await;
    assert_eq!(event_log::waiting(&shop.pool).await.expect("counted"), 0);
    commit_events(&shop, 1, 3).await;
    assert_eq!(event_log::waiting(&shop.pool).await.expect("counted"), 3);
    let far = "UPDATE outbox SET seq = seq + 100000 ORDER BY seq DESC LIMIT 1";
    shop.change(sqlx::query(far)).await;
    assert_eq!(event_log::waiting(&shop.pool).await.expect("counted"), 2);
}

/// Purchases that are not committed hold an event of each item, before those of others. The others are told meanwhile,
/// and the held ones when they are committed.
async fn assert_only_the_held_wait(shop: &Shop) {
    let mut purchases = Vec::new();
    let mut held = Vec::new();
    for item in APART {
        let mut purchase = patient_transaction(&shop.pool).await;
        held.push(write_event(&mut purchase, item).await);
        purchases.push(purchase);
    }
    for item in APART {
        commit_events(shop, item, OTHERS).await;
    }
    shop.until_count(TOLD, 2 * OTHERS).await;
    for purchase in purchases {
        purchase.commit().await.expect("committed");
    }
    shop.until_count(TOLD, 2 * OTHERS + 2).await;
    let last = "SELECT id FROM event_log ORDER BY position DESC LIMIT 2";
    let mut last: Vec<String> = shop.read_all(sqlx::query_scalar(last)).await;
    last.sort_unstable();
    held.sort_unstable();
    assert_eq!(last, held, "events with lower numbers that were committed later");
    shop.until_count("SELECT COUNT(*) FROM outbox", 0).await;
}

/// A relay that has locked the first event of an item was lost, and its end is not decided. The next relay waits for
/// it: if it passed over that event, later ones of the item would come before it.
async fn assert_a_lost_relay_is_waited_for(shop: &Shop, cluster: &VitessCluster) {
    let before = shop.number(TOLD).await;
    let mut pause = shop.pool.begin().await.expect("begun");
    let lock = sqlx::query("SELECT last_position FROM event_relay WHERE id = 1 FOR UPDATE");
    lock.fetch_one(&mut *pause).await.expect("no relay moves events now");
    commit_events(shop, APART[0], 3).await;
    let mut lost = shop.pool.begin().await.expect("begun");
    let first = "SELECT seq FROM outbox WHERE item_id = ? ORDER BY seq LIMIT 1 FOR UPDATE";
    sqlx::query(first).bind(APART[0]).fetch_one(&mut *lost).await.expect("locked");
    pause.rollback().await.expect("released");
    let url = cluster.primary_url("-80").await.expect("it has one");
    let server = MySqlPool::connect(&url).await.expect("it answers");
    until_running(&server.into(), "%outbox%for update%", 1).await;
    assert_eq!(shop.read::<i64>(sqlx::query_scalar(TOLD)).await, before, "it waits for all three");
    lost.rollback().await.expect("released");
    shop.until_count(TOLD, before + 3).await;
    let last = "SELECT outbox_seq FROM event_log ORDER BY position DESC LIMIT 3";
    let last: Vec<i64> = shop.read_all(sqlx::query_scalar(last)).await;
    assert!(last.is_sorted_by(|later, earlier| later > earlier), "{last:?}");
}

#[tokio::test]
async fn a_purchase_delays_its_own_event_alone() {
    let (shop, _instance) = shop_with_events().await.opened().await;
    assert_only_the_held_wait(&shop).await;
}

/// On items in two shards of Vitess, where a lost relay is waited for, too. In `make test-all`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_shards() {
    if !can_start() {
        return;
    }
    let (cluster, shop) = clustered_shop(&[("-80", 2), ("80-", 2)], true).await;
    let _instance = shop.start().await;
    assert_only_the_held_wait(&shop).await;
    assert_a_lost_relay_is_waited_for(&shop, &cluster).await;
    cluster.stop().await;
}
