//! A server of a Redis Cluster that is away while the others work.

use dev_servers::{RedisCluster, RedisClusterOptions};
use extension::job::Job;
use gates::redis_store::queue::Reader;
use redis_connection::Slot;
use seckill::job::Reconcile;

use super::*;

/// A cluster without replicas, and a shop on it.
async fn sharded_shop() -> (RedisCluster, Shop) {
    let options = RedisClusterOptions { replicas: 0, ..RedisClusterOptions::default() };
    let cluster = RedisCluster::start(options).await.expect("it starts");
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(cluster.url());
    (cluster, shop)
}

/// Makes an item on another server than `but`, and returns both.
async fn item_elsewhere(
    instance: &Instance,
    cluster: &RedisCluster,
    but: Option<usize>,
) -> (i64, usize) {
    for _ in 0..50 {
        let item = instance.make_item(json!({ "stock": 10 })).await;
        let slot = Slot::of(format!("item:{item}").as_bytes()).number();
        let owner = cluster.owner(slot, None).await.expect("an owner");
        if but != Some(owner) {
            return (item, owner);
        }
    }
    panic!("no item on another server");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_a_dead_consumer_are_taken_over_while_another_server_is_away() {
    let (cluster, shop) = sharded_shop().await;
    let instance = shop.start().await;
    let (away, dead) = item_elsewhere(&instance, &cluster, None).await;
    let (healthy, _) = item_elsewhere(&instance, &cluster, Some(dead)).await;
    // Both queues are on the list, and one has an order.
    assert_eq!(instance.buyer(2).buy_for_good(STREAM, healthy).await.status, 201);
    let _undecided = hold_up(&shop, away).await;
    queue(&instance, away, 1).await;

    cluster.nodes[dead].kill().await;
    let queue = queue_of(&shop);
    let purchase = purchase(&shop, healthy, "k").await;
    push(&queue, &purchase).await;
    // A consumer that dies with the order in hand.
    let id = ItemId::new(healthy).expect("positive");
    let taken = Reader::new(queue.clone()).read(id, 10).await.expect("read");
    drop(taken);
    eventually("the order to be in the ledger", || async {
        in_ledger(&shop, healthy).await.contains(&purchase.order_id.to_string()).then_some(())
    })
    .await;

    // The list has the orders of the other servers, and says that it is incomplete.
    let listed = instance.buyer(1).get("/api/orders").await;
    assert_eq!((listed.status, &listed.json["incomplete"]), (200, &json!(true)), "{}", listed.text);
    assert_eq!(listed.json["orders"].as_array().map(Vec::len), Some(1), "{}", listed.text);
    run_says(&shop, &["dead-letter"], (1, "incomplete: 1 item could not be read")).await;
    drop(instance);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_is_repaired_while_another_server_is_away() {
    let (cluster, shop) = sharded_shop().await;
    let instance = shop.start().await;
    let (away, dead) = item_elsewhere(&instance, &cluster, None).await;
    let (healthy, _) = item_elsewhere(&instance, &cluster, Some(dead)).await;
    for item in [away, healthy] {
        assert_eq!(instance.buyer(1).buy("redis-lua", item).await.status, 201);
    }
    instance.stop().await;
    cluster.nodes[dead].kill().await;
    let counters = shop.counters();
    let id = ItemId::new(healthy).expect("positive");
    let counter = counters.peek(id).await.expect("read").expect("loaded");
    counters.give_back(id, counter.epoch, 3).await;
    let job = Reconcile::new(shop.pool.clone(), counters.clone(), Metrics::new());
    for _ in 0..2 {
        let told = job.run().await.expect_err("one server is away");
        assert!(told.contains(&format!("1 could not be compared: item {away}: ")), "{told}");
    }
    assert_eq!(counters.peek(id).await.expect("read"), Some(counter));
    cluster.stop().await;
}
