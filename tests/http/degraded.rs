//! What still works while a server is away, and that it is not waited for over and over.

use futures::future::join_all;
use seckill::config::{Config, Secret};
use serde_json::json;

use super::{BOUND, assert_clean, assert_problem, eventually, when};
use crate::support::{Cut, Instance, Shop, servers};

/// More than a breaker needs to see.
const CALLS: i64 = 25;

/// An instance that reaches its servers by links that can be cut, and one that always does.
async fn place() -> (Shop, Instance, Instance, Cut, Cut) {
    let shop = Shop::new().await;
    let whole = shop.start().await;
    let options = shop.pool.connect_options();
    let database = options.get_database().expect("a name");
    let mysql = Cut::to(&servers().await.mysql.tcp_url_of(database)).await;
    let redis = Cut::to(&crate::support::redis_url().await).await;
    let mut config: Config = shop.config.clone();
    config.database_url = Secret::new(mysql.url());
    config.redis_url = Secret::new(redis.url());
    config.mysql.acquire_timeout_ms = 400;
    config.redis.command_timeout_ms = 400;
    // What is counted below are requests alone.
    config.job.expire_period_ms = 60_000;
    config.job.reconcile_period_ms = 60_000;
    config.session.revocation_period_ms = 60_000;
    let instance = Shop { config, pool: shop.pool.clone() }.start().await;
    (shop, whole, instance, mysql, redis)
}

async fn is_open(instance: &Instance, dependency: &str) -> bool {
    let metrics = instance.stranger().get("/metrics").await.text;
    metrics.contains(&format!("seckill_breaker_open{{dependency=\"{dependency}\"}} 1\n"))
}

#[tokio::test]
async fn without_the_ledger_pages_show_what_was_last_seen() {
    let (_shop, whole, instance, mysql, _redis) = place().await;
    let shop_item =
        |stock: i64| json!({ "kind": "shop", "stock": stock, "strategy": "mysql-atomic" });
    let left = whole.make_item(shop_item(10)).await;
    let gone = whole.make_item(shop_item(0)).await;
    let stranger = instance.stranger();
    let paths =
        ["/api/items".to_owned(), format!("/api/items/{left}"), format!("/api/items/{gone}")];
    for path in &paths {
        let answer = stranger.get(path).await;
        assert_eq!(
            (answer.status, &answer.json["stale"]),
            (200, &json!(false)),
            "{path}: {}",
            answer.text
        );
        assert!(!answer.headers.contains_key("age"), "{path}");
    }
    mysql.cut();
    for path in &paths {
        let answer = stranger.get(path).await;
        assert_eq!((answer.status, &answer.json["stale"]), (200, &json!(true)), "{}", answer.text);
        let age = answer.headers["age"].to_str().expect("text");
        assert!(age.parse::<u32>().is_ok(), "{age}");
        assert!(!answer.headers.contains_key("etag"), "{path}: nothing is edited by a copy");
    }
    let listed = stranger.get("/api/items").await.json;
    assert!(listed["items"].as_array().is_some_and(|items| items.len() == 2), "{listed}");
    assert_eq!(stranger.get(&paths[1]).await.json["available"], 10);
    let unknown = stranger.get("/api/items/4711").await;
    assert_problem(&unknown, (503, "dependency_unavailable"), "an item that was never seen");
    // Sold out stays sold out; what may be left is not sold by a copy; a key asks for the truth.
    let buyer = instance.buyer(1);
    let unavailable = (503, "dependency_unavailable");
    assert_problem(&buyer.buy("default", gone).await, (409, "sold_out"), "the sold-out one");
    assert_problem(&buyer.buy("default", left).await, unavailable, "the other");
    assert_problem(&buyer.buy_with_key("default", gone, "k").await, unavailable, "with a key");
    // The pages themselves, and the instance, are well.
    assert_eq!(stranger.get("/").await.status, 200);
    assert_eq!(stranger.get("/healthz").await.status, 200);
    let ready = stranger.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text);
    assert_ne!(ready.json["dependencies"]["mysql"], "ok");
    // After enough failures nobody waits for the ledger any more, but for a probe now and then.
    join_all((0..CALLS).map(|_| stranger.get("/api/items"))).await;
    eventually(BOUND, || async { when(is_open(&instance, "mysql").await, "still closed") }).await;
    let before = mysql.attempts();
    for _ in 0..200 {
        assert_eq!(stranger.get("/api/items").await.json["stale"], true);
    }
    assert_problem(&buyer.buy("default", left).await, unavailable, "while it is open");
    let asked = mysql.attempts() - before;
    assert!(asked < 100, "{asked} connections for 200 requests");
    mysql.mend();
    eventually(BOUND, || async {
        let answer = stranger.get("/api/items").await;
        when(answer.json["stale"] == false && !is_open(&instance, "mysql").await, answer.text)
    })
    .await;
    eventually(BOUND, || async {
        let answer = buyer.buy_with_key("default", left, "again").await;
        when(answer.status == 201, answer.text)
    })
    .await;
    assert_eq!(assert_clean(&whole, left).await["orders"], 1);
}

#[tokio::test]
async fn without_redis_what_needs_it_is_refused_at_once_and_the_rest_sells() {
    let (_shop, whole, instance, _mysql, redis) = place().await;
    let item = whole.make_item(json!({ "stock": 1_000 })).await;
    assert_eq!(instance.buyer(1).buy("redis-lua", item).await.status, 201);
    redis.cut();
    let buyers: Vec<_> = (2..2 + CALLS).map(|id| instance.buyer(id)).collect();
    for answer in join_all(buyers.iter().map(|buyer| buyer.buy("redis-lua", item))).await {
        assert_problem(&answer, (503, "dependency_unavailable"), "without Redis");
        assert_eq!(answer.json["outcome"], "none");
    }
    assert!(is_open(&instance, "redis").await && !is_open(&instance, "mysql").await);
    let before = redis.attempts();
    let refused = join_all(buyers.iter().map(|buyer| buyer.buy("redis-lua", item))).await;
    assert!(refused.iter().all(|answer| answer.status == 503));
    let asked = redis.attempts() - before;
    assert!(asked < buyers.len(), "{asked} connections for {} requests", buyers.len());
    // No silent switch to another strategy; the others are not touched.
    assert_eq!(buyers[0].buy("mysql-atomic", item).await.status, 201);
    redis.mend();
    eventually(BOUND, || async {
        let answer = instance.buyer(100).buy_with_key("redis-lua", item, "again").await;
        when(answer.status == 201, answer.text)
    })
    .await;
    let next = std::sync::atomic::AtomicI64::new(200);
    eventually(BOUND, || async {
        let id = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = instance.buyer(id).buy("redis-lua", item).await;
        when(!is_open(&instance, "redis").await, answer.text)
    })
    .await;
}
