//! A 202 that waits for replicas (`queue.replicas_min`).

use dev_servers::{RedisSentinels, RedisServer};
use faulty_link::Server;
use gates::redis_store::CounterError;
use gates::redis_store::queue::{Push, is_unknown};
use shop_domain::OrderId;
use tokio::time::Instant;

use super::*;
use crate::support::own_redis;

/// Orders are promised with the replicas, in doubt or refused without them, and promised again. Rows of the fault matrix
/// show that a cluster loses none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_sentinels_a_202_means_that_the_replicas_have_the_order() {
    let group = RedisSentinels::start(None).await.expect("the group starts");
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(group.url());
    shop.config.queue.replicas_min = 2;
    shop.config.queue.replicas_wait_ms_max = 200;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 10 })).await;
    let buy = async |id: i64| instance.buyer(id).buy_with_key(STREAM, item, "k").await;
    // A busy machine may take longer than the replicas are waited for; then the order is in doubt, and asked for again.
    let promised =
        async |id: i64, what: &str| until(what, || buy(id), |answer| answer.status == 202).await;
    let holder = hold_up(&shop, item).await;
    let with_replicas = promised(1, "an order that the replicas have").await;

    // One is enough to be too few. It was there a moment ago, so the order is queued before it is missed.
    let primary = group.primary().await.expect("a primary");
    let replica = &group.servers[(primary + 1) % group.servers.len()];
    assert!(replica.pause());
    let in_doubt = buy(2).await;
    assert_eq!(in_doubt.brief(), (504, "outcome_unknown"), "{}", in_doubt.text);
    // Now it is known to be away: nothing more is queued.
    let refused = buy(3).await;
    assert_eq!(refused.brief(), (503, "dependency_unavailable"), "{}", refused.text);
    assert_eq!(refused.json["outcome"], "none", "{}", refused.text);
    // While the replica is away, a retry of either key is unknown: also of the order that was promised before.
    for id in [1, 2] {
        let again = buy(id).await;
        assert_eq!(again.json["outcome"], "unknown", "buyer {id}: {}", again.text);
    }
    // Strategies without a queue wait for no replica.
    let other = instance.make_item(json!({ "stock": 10 })).await;
    assert_eq!(instance.buyer(4).buy("redis-lua", other).await.status, 201);
    assert_eq!(instance.audit(item).await["redis_queued"], 2);

    assert!(replica.resume());
    let second = promised(2, "the replicas to have caught up").await;
    let third = promised(3, "an order to be queued again").await;
    assert_eq!(order_id(&buy(1).await), order_id(&with_replicas));
    holder.rollback().await.expect("the row is free");
    let mut orders: Vec<String> = [&with_replicas, &second, &third].map(order_id).into();
    for (id, order) in (1..).zip(&orders) {
        ends_as(&instance.buyer(id), order, "pending").await;
    }
    orders.sort();
    assert_eq!(in_ledger(&shop, item).await, orders);
    assert_clean(&instance, item).await;
    group.stop().await;
}

#[tokio::test]
async fn the_card_says_how_many_replicas_have_a_queued_order() {
    let mut shop = shop().await;
    shop.config.queue.replicas_min = 2;
    let instance = shop.start().await;
    let cards = instance.stranger().get("/api/strategies").await.json;
    let cards = cards.as_array().expect("a list");
    let queued = cards.iter().find(|card| card["name"] == STREAM).expect("on the list");
    let promise = queued["promise"].as_str().expect("a sentence");
    assert!(promise.contains("2 replicas have it in memory before the answer"), "{promise}");
}

/// More pushes than one pipeline takes.
const CROWD: usize = 300;
/// Sooner than a pipeline to a server that stands still ends.
const TURN_MAX: Duration = Duration::from_millis(300);

/// Nothing is in doubt that was not sent, and it is not sent later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_turn_does_not_come_in_time_is_not_queued() {
    let servers = own_redis(2, &[]).await;
    let [primary, replica] = &*servers else { panic!("two servers") };
    replica.follow(primary, primary.port()).await.expect("it follows");
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(primary.tcp_url());
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 1_000 })).await;
    instance.stop().await;
    let queue = queue_with(&shop, 1_000).with_replicas(1, Duration::from_millis(200));
    let first = purchase(&shop, item, "k").await;
    eventually("the connection to push on", || queue.push(&first, None, in_a_minute())).await;

    assert!(primary.pause());
    let until = Instant::now() + TURN_MAX;
    let pushes = (0..CROWD).map(async |_| {
        let purchase = purchase_of(&first.item, 1, 1);
        let pushed = queue.push(&purchase, None, until).await;
        (purchase.order_id, pushed)
    });
    let mut refused = Vec::new();
    for (order, pushed) in join_all(pushes).await {
        let Err(CounterError::Redis(error)) = pushed else { panic!("{pushed:?}") };
        if !is_unknown(&error) {
            refused.push(order);
        }
    }
    // The first pipeline was sent, and had room for no more.
    assert!(refused.len() >= CROWD - 256, "{} of {CROWD} are certain", refused.len());
    assert!(primary.resume());
    eventually("an order to be queued again", || async {
        let pushed = queue.push(&purchase_of(&first.item, 1, 1), None, in_a_minute()).await;
        matches!(pushed, Ok(Push::Queued { is_replicated: true })).then_some(())
    })
    .await;
    for order in refused {
        let found = queue.find_in(first.item.id, order).await.expect("asked");
        assert_eq!(found, None, "it was said not to be queued");
    }
}

/// A retry that reads the old primary and is confirmed at the new one, which has lost the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_not_promised_by_a_primary_that_has_lost_its_order() {
    let servers = own_redis(3, &[]).await;
    let [old, new, replica] = &*servers else { panic!("three servers") };
    let url = new.tcp_url();
    let password = url.split([':', '@']).nth(2).expect("a password");
    let () = old.run(&["CONFIG", "SET", "requirepass", password]).await.expect("set");
    replica.follow(new, new.port()).await.expect("it follows");
    let at = |server: &RedisServer| Server::Tcp(format!("127.0.0.1:{}", server.port()));
    let link = link_to(&url).await;
    link.lead_to(at(old));
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(link.url().to_owned());
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 10 })).await;
    let holder = hold_up(&shop, item).await;
    let accepted = instance.buyer(1).buy_with_key(STREAM, item, "k").await.expect_status(202);
    instance.stop().await;

    let queue = queue_of(&shop).with_replicas(1, Duration::from_secs(5));
    let purchase = purchase(&shop, item, "k").await;
    // The connection to the old primary is made; all others lead to the new one.
    let order = OrderId::parse(&order_id(&accepted)).expect("an id");
    assert!(queue.find(order, purchase.buyer).await.expect("asked").is_some());
    link.lead_to(at(new));
    let found = queue.find_request(purchase.item.id, purchase.buyer, &purchase.key).await;
    assert_eq!(found.expect("asked"), None, "the new primary has no such order");
    let exists = ["EXISTS", &key(&shop, item, "requests")];
    assert_eq!(new.run::<i64>(&exists).await.expect("asked"), 0, "the request would be believed");
    drop(holder);
}
