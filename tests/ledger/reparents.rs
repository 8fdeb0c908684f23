//! A ledger on a cluster of Vitess, with tablets that replicate, while its primaries are replaced and its shards are split.

use std::time::Instant;

use dev_servers::{VitessCluster, VitessServer};
use mysql_connection::engine::Engine;

use crate::support::crowd::{Crowd, ENOUGH, assert_nothing_lost};
use crate::support::prelude::*;
use crate::support::shards::{clustered_shop, items_in};

/// Returns whether this run starts a cluster.
pub fn can_start() -> bool {
    if !is_whole() {
        println!("left out: only `make test-all` starts a cluster of Vitess");
        return false;
    }
    // It is built from its Go module.
    let programs = VitessServer::programs();
    if let Err(missing) = &programs {
        println!("not tested: {missing}");
    }
    programs.is_ok()
}

/// Buyers by single transactions and by batches, each with an item in all quarters of the places.
async fn crowd_everywhere(shop: &Shop, instance: &Instance) -> Crowd {
    let items = items_in(shop, instance, &[0, 1, 2, 3, 0, 1, 2, 3]).await;
    let strategies = ["mysql-atomic", "mysql-batch"].into_iter().flat_map(|name| [name; 4]);
    Crowd::of(instance, strategies.zip(items).collect())
}

/// What `/readyz` says of the replication.
async fn replication(instance: &Instance) -> String {
    let ready = instance.stranger().get("/readyz").await;
    ready.json["dependencies"]["mysql_replication"].as_str().unwrap_or_default().to_owned()
}

/// Holds the stock row of an item by a transaction through vtgate, and kills vtgate: the tablet with the transaction is not
/// told, and ends it all the same, so that the item is sold.
async fn assert_lost_transactions_end(
    cluster: &mut VitessCluster,
    shop: &Shop,
    instance: &Instance,
) {
    let item = instance.make_item(json!({})).await;
    let mut held = shop.pool.begin().await.expect("begun");
    let lock = "SELECT available FROM stock WHERE item_id = ? FOR UPDATE";
    sqlx::query(lock).bind(item).execute(&mut *held).await.expect("locked");
    cluster.gate().kill().await;
    cluster.gate().restart().await.expect("vtgate starts again");
    let begin = Instant::now();
    let buy = || async { instance.buyer(30).buy_with_key("mysql-atomic", item, "once").await };
    until(RECOVERY_MAX, buy, |answer| matches!(answer.status, 200 | 201)).await;
    println!("sold {:?} after vtgate was back", begin.elapsed());
}

/// Vtgate is killed, a primary is replaced by its replica as planned, then one is killed with its server and replaced, and
/// comes back: each accepted order is there, and nothing else was sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_sells_on_under_another_primary() {
    if !can_start() {
        return;
    }
    // After its primary is gone, a shard needs one tablet that becomes it, and one more that a commit waits for.
    let (mut cluster, shop) = clustered_shop(&[("-80", 3), ("80-", 2)], false).await;
    let said = Engine::read(&shop.pool).await.expect("it answers").to_string();
    assert!(said.contains("3 of 3 primaries serve, a commit waits for a replica"), "{said}");
    let instance = shop.start().await;
    let crowd = crowd_everywhere(&shop, &instance).await;
    crowd.sells_on("undisturbed").await;
    assert_lost_transactions_end(&mut cluster, &shop, &instance).await;
    crowd.sells_on("without a vtgate for a moment").await;
    for shard in ["80-", "-80"] {
        let before = cluster.primary_of(shard).await.expect("it has one");
        cluster.hand_over(shard).await.expect("another becomes the primary");
        assert_ne!(cluster.primary_of(shard).await.expect("it has one"), before);
        crowd.sells_on(&format!("as planned in {shard}")).await;
    }
    let killed = cluster.kill_primary("-80").await.expect("it has one");
    let told = until(RECOVERY_MAX, || replication(&instance), |told| told != "ok");
    assert_eq!(told.await, "a primary of the keyspace does not serve");
    cluster.take_over("-80").await.expect("another becomes the primary");
    assert_ne!(cluster.primary_of("-80").await.expect("it has one"), killed);
    crowd.sells_on("after a kill").await;
    let is_back = cluster.rejoin(killed).await.expect("its server starts");
    println!("the former primary is back: {is_back}");
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    cluster.stop().await;
}

/// Buys an order of two items.
async fn cart(instance: &Instance, items: &[i64]) -> Answer {
    let lines: Vec<_> =
        items.iter().map(|item| json!({ "item_id": item, "quantity": 1 })).collect();
    instance.buyer(20).post("/api/reservations", &json!({ "lines": lines })).await
}

/// Asserts that the log of events tells of each of these orders once.
pub async fn assert_told_once(shop: &Shop, accepted: &[(i64, Vec<String>)]) {
    eventually(RECOVERY_MAX, || async {
        let waiting = sqlx::query_scalar("SELECT COUNT(*) FROM outbox");
        let waiting: sqlx::Result<i64> = waiting.fetch_one(&shop.pool).await;
        when(matches!(waiting, Ok(0)), format!("{waiting:?}"))
    })
    .await;
    let payloads = sqlx::query_scalar("SELECT payload FROM event_log").fetch_all(&shop.pool);
    let payloads: Vec<String> = payloads.await.expect("the log is read");
    let mut told: BTreeMap<String, u32> = BTreeMap::new();
    for payload in payloads {
        let event: Value = serde_json::from_str(&payload).expect("JSON");
        let orders = event["orders"].as_array().expect("orders").iter();
        // Those of a slow run expire, and are told again.
        for order in orders.filter(|order| order["status"] == "pending") {
            *told.entry(order["id"].as_str().expect("an id").to_owned()).or_default() += 1;
        }
    }
    let orders = accepted.iter().flat_map(|(_, orders)| orders);
    let wrong: Vec<&String> = orders.filter(|id| told.get(*id) != Some(&1)).collect();
    assert!(wrong.is_empty(), "not told once: {wrong:?}");
}

/// Two shards are split into four while they sell: each accepted order is in its new shard and told once, and nothing else
/// was sold. The service knows the new shards without a restart: it refuses an order over two of them, which were one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_split_while_they_sell() {
    if !can_start() {
        return;
    }
    let (mut cluster, shop) = clustered_shop(&[("-80", 2), ("80-", 2)], true).await;
    let instance = shop.start().await;
    let apart = items_in(&shop, &instance, &[0, 1]).await;
    cart(&instance, &apart).await.expect_status(201);
    let crowd = crowd_everywhere(&shop, &instance).await;
    crowd.sells_on("undisturbed").await;
    let begin = Instant::now();
    let into = [("-40", 2), ("40-80", 2), ("80-c0", 2), ("c0-", 2)];
    cluster.split("-80,80-", &into).await.expect("the new shards start");
    cluster.is_copied(into.len()).await.expect("the rows are copied");
    println!("copied after {:?}, the longest waits: {}", begin.elapsed(), crowd.longest_waits());
    cluster.switch_over().await.expect("the new shards serve");
    crowd.sells_on("switched").await;
    let refused = until(RECOVERY_MAX, || cart(&instance, &apart), |answer| answer.status == 409);
    assert_eq!(refused.await.brief(), (409, "items_apart"));
    // The old primaries are there and do not serve, and nobody needs them.
    assert_eq!(replication(&instance).await, "ok");
    cluster.forget_old().await.expect("the old shards are removed");
    crowd.has_bought(ENOUGH).await;
    let accepted = crowd.leaves().await;
    assert_nothing_lost(&shop, &instance, &accepted).await;
    assert_told_once(&shop, &accepted).await;
    cluster.stop().await;
}
