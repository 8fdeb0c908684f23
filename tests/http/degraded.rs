//! What still works while a server is away, and that it is not waited for over and over.

use std::sync::atomic::AtomicI64;

use dev_servers::RedisServer;

use crate::support::independent_redis;
use crate::support::prelude::*;

/// More than a breaker needs to see.
const CALLS: i64 = 25;

/// An instance that reaches its servers by links that can be cut, and one that always does.
async fn place() -> (Shop, Instance, Instance, FaultyLink, FaultyLink) {
    let (shop, whole) = Shop::open().await;
    let mysql = link_to_ledger(&shop).await;
    let redis = link_to(&redis_url().await).await;
    let by_links = |config: &mut Config| {
        config.database_url = Secret::new(mysql.url());
        config.redis_url = Secret::new(redis.url());
        config.mysql.acquire_timeout_ms = 400;
        config.redis.command_timeout_ms = 400;
        // What is counted below are requests, and one look a second at who has signed out.
        config.job.expire_period_ms = 60_000;
        config.job.reconcile_period_ms = 60_000;
        config.session.revocation_period_ms = 1_000;
    };
    let instance = shop.start_with(by_links).await;
    (shop, whole, instance, mysql, redis)
}

/// Waits until the metrics of an instance call its ledger away, or not.
async fn until_ledger_is_away(instance: &Instance, is_away: bool) {
    until_metric(&instance.stranger(), &format!("seckill_ledger_away {}", u8::from(is_away))).await;
}

/// Waits until the breaker of a server is open in the instance, or closed.
async fn until_breaker_is(instance: &Instance, dependency: &str, open: bool) {
    until(BOUND, || is_breaker_open(instance, dependency), |seen| *seen == open).await;
}

/// Sends purchases, each of a new buyer, until one is sold and the breaker of the server is closed.
async fn until_probed(instance: &Instance, strategy: &str, item: i64, dependency: &str) {
    let next = AtomicI64::new(200);
    eventually(BOUND, || async {
        let answer = instance.buyer(next.fetch_add(1, Ordering::Relaxed)).buy(strategy, item).await;
        when(answer.status == 201 && !is_breaker_open(instance, dependency).await, answer.text)
    })
    .await;
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
        answer.assert_fields(200, json!({ "stale": false }));
        assert!(!answer.headers.contains_key("age"), "{path}");
    }
    mysql.cut();
    for path in &paths {
        let answer = stranger.get(path).await;
        answer.assert_fields(200, json!({ "stale": true }));
        let age = answer.headers["age"].to_str().expect("text");
        assert!(age.parse::<u32>().is_ok(), "{age}");
        assert!(!answer.headers.contains_key("etag"), "{path}: nothing is edited by a copy");
    }
    // Strangers may ask in a loop for the draw of an item that has none.
    for path in ["draw", "draw/announcement", "draw/entries"] {
        let answer = stranger.get(&format!("{}/{path}", paths[1])).await;
        assert_problem(&answer, (409, "no_draw"), path);
    }
    let listed = stranger.get("/api/items").await.json;
    assert!(listed["items"].as_array().is_some_and(|items| items.len() == 2), "{listed}");
    assert_eq!(stranger.get(&paths[1]).await.json["available"], 10);
    stranger.get("/api/items/4711").await.expect_problem(503, "dependency_unavailable");
    // Sold out stays sold out; what may be left is not sold by a copy; a key asks for the truth.
    let buyer = instance.buyer(1);
    let unavailable = (503, "dependency_unavailable");
    assert_problem(&buyer.buy("default", gone).await, (409, "sold_out"), "the sold-out one");
    assert_problem(&buyer.buy("default", left).await, unavailable, "the other");
    assert_problem(&buyer.buy_with_key("default", gone, "k").await, unavailable, "with a key");
    // The pages themselves, and the instance, are well.
    assert_eq!(stranger.get("/").await.status, 200);
    assert_eq!(stranger.get("/healthz").await.status, 200);
    let ready = stranger.get("/readyz").await.expect_status(200);
    assert_ne!(ready.json["dependencies"]["mysql"], "ok");
    until_ledger_is_away(&instance, true).await;
    // After enough failures nobody waits for the ledger any more, but for a probe now and then. Strangers share their
    // reads, so the failures are those of a buyer.
    join_all((0..CALLS).map(|_| buyer.get("/api/orders"))).await;
    until_breaker_is(&instance, "mysql", true).await;
    let before = mysql.connections();
    for _ in 0..200 {
        assert_eq!(stranger.get("/api/items").await.json["stale"], true);
    }
    assert_problem(&buyer.buy("default", left).await, unavailable, "while it is open");
    let asked = mysql.connections() - before;
    assert!(asked < 100, "{asked} connections for 200 requests");
    mysql.mend();
    stranger.until("/api/items", |answer| answer.json["stale"] == false).await;
    until_breaker_is(&instance, "mysql", false).await;
    until_ledger_is_away(&instance, false).await;
    buyer.buy_until_sold("default", left, "again").await;
    assert_eq!(assert_clean(&whole, left).await["orders"], 1);
}

#[tokio::test]
async fn without_redis_what_needs_it_is_refused_at_once_and_the_rest_sells() {
    let (_shop, whole, instance, _mysql, redis) = place().await;
    let item = whole.make_item(json!({ "stock": 1_000 })).await;
    assert_eq!(instance.buyer(1).buy("redis-lua", item).await.status, 201);
    redis.cut();
    for strategy in ["redis-watch", "lock-redis", "lock-redis?store=redis"] {
        let refused = instance.buyer(99).buy(strategy, item).await;
        assert_problem(&refused, (503, "dependency_unavailable"), strategy);
        let told = (&refused.json["outcome"], &refused.json["retryable"]);
        assert_eq!(told, (&json!("none"), &json!(true)), "{strategy}");
        assert!(refused.headers.contains_key("retry-after"), "{strategy}");
    }
    let buyers: Vec<_> = (2..2 + CALLS).map(|id| instance.buyer(id)).collect();
    for answer in join_all(buyers.iter().map(|buyer| buyer.buy("redis-lua", item))).await {
        assert_problem(&answer, (503, "dependency_unavailable"), "without Redis");
        assert_eq!(answer.json["outcome"], "none");
    }
    let open =
        (is_breaker_open(&instance, "redis").await, is_breaker_open(&instance, "mysql").await);
    assert_eq!(open, (true, false), "Redis alone is away");
    let before = redis.connections();
    let refused = join_all(buyers.iter().map(|buyer| buyer.buy("redis-lua", item))).await;
    assert!(refused.iter().all(|answer| answer.status == 503));
    let asked = redis.connections() - before;
    assert!(asked < buyers.len(), "{asked} connections for {} requests", buyers.len());
    // No silent switch to another strategy; the others are not touched.
    let order = order_id(&buyers[0].buy("mysql-atomic", item).await);
    buyers[0].step(&order, "payment").await.expect_status(200);
    let ready = instance.stranger().get("/readyz").await.expect_status(200);
    assert_eq!(ready.json["dependencies"]["mysql"], "ok");
    assert_ne!(ready.json["dependencies"]["redis"], "ok");
    assert!(!ready.text.contains(&redis.addr().to_string()), "{}", ready.text);
    redis.mend();
    instance.buyer(100).buy_until_sold("redis-lua", item, "again").await;
    until_probed(&instance, "redis-lua", item, "redis").await;
    assert_clean(&whole, item).await;
}

#[tokio::test]
async fn without_the_ledger_orders_are_refused_at_once_and_left_as_they_are() {
    let (_shop, whole, instance, mysql, _redis) = place().await;
    let item = whole.make_item(json!({ "stock": 10, "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let to_pay = order_id(&buyer.buy("mysql-atomic", item).await);
    let to_cancel = order_id(&buyer.buy("mysql-atomic", item).await);
    let credentials = json!({ "username": "somebody", "password": "long enough" });
    let ask = async || {
        let (pay, cancel) = (format!("{to_pay}/payment"), format!("{to_cancel}/cancellation"));
        [
            ("the list", buyer.get("/api/orders").await),
            ("an order", buyer.get(&format!("/api/orders/{to_pay}")).await),
            ("a payment", buyer.post(&format!("/api/orders/{pay}"), &json!({})).await),
            ("a cancellation", buyer.post(&format!("/api/orders/{cancel}"), &json!({})).await),
            ("a sign-in", instance.stranger().post("/api/session", &credentials).await),
            ("an audit", instance.admin().get(&format!("/api/admin/items/{item}/audit")).await),
            ("a sale", instance.admin().post("/api/admin/items", &item_body(json!({}))).await),
            ("the acts", instance.admin().get("/api/admin/actions").await),
        ]
    };
    mysql.cut();
    let unavailable = (503, "dependency_unavailable");
    let lists = (0..CALLS).map(|_| buyer.get("/api/orders"));
    for answer in join_all(lists).await {
        assert_problem(&answer, unavailable, "while the breaker learns");
    }
    assert!(is_breaker_open(&instance, "mysql").await);
    let before = mysql.connections();
    for _ in 0..10 {
        for (what, answer) in ask().await {
            assert_problem(&answer, unavailable, what);
            assert_eq!(answer.json["outcome"], "none", "{what}: nothing was sent");
        }
    }
    let asked = mysql.connections() - before;
    assert!(asked < 40, "{asked} connections for 80 requests");
    // A token needs no ledger, and one that is signed out is so here at once.
    let leaving = instance.buyer(2);
    assert_problem(&leaving.delete("/api/session").await, unavailable, "a sign-out");
    assert_problem(&leaving.get("/api/orders").await, (401, "invalid_token"), "after it");
    mysql.mend();
    // Although nobody asks for anything.
    until_breaker_is(&instance, "mysql", false).await;
    for order in [&to_pay, &to_cancel] {
        let answer = buyer.get(&format!("/api/orders/{order}")).await;
        answer.assert_fields(200, json!({ "status": "pending" }));
    }
    let answers = ask().await;
    assert_eq!(answers[2].1.json["status"], "paid", "{}", answers[2].1.text);
    assert_eq!(answers[3].1.json["status"], "cancelled", "{}", answers[3].1.text);
    assert_eq!(assert_clean(&whole, item).await["orders"], 2);
}

/// Another instance may have written it, and shown it as pending.
#[tokio::test]
async fn without_the_ledger_nobody_says_that_an_order_is_still_queued() {
    let (shop, whole, instance, mysql, _redis) = place().await;
    let item = whole.make_item(json!({})).await;
    let buyer = instance.buyer(1);
    // Its consumer, in whichever instance, cannot get at the stock.
    let holder = hold_stock_row(&shop.pool, item).await;
    let queued = buyer.buy("redis-stream", item).await.expect_status(202);
    let path = format!("/api/orders/{}", order_id(&queued));
    mysql.cut();
    for of in [1, 2] {
        instance.buyer(of).get(&path).await.expect_problem(503, "dependency_unavailable");
    }
    holder.rollback().await.expect("the row is free");
    mysql.mend();
    buyer.until(&path, |seen| seen.json["status"] == "pending").await;
    assert_eq!(assert_clean(&whole, item).await["orders"], 1);
}

/// Its buyer is not told that there is none.
#[tokio::test]
async fn without_redis_nobody_says_that_a_queued_order_does_not_exist() {
    let (shop, whole, instance, _mysql, redis) = place().await;
    let item = whole.make_item(json!({})).await;
    let buyer = instance.buyer(1);
    let holder = hold_stock_row(&shop.pool, item).await;
    let order = order_id(&buyer.buy("redis-stream", item).await.expect_status(202));
    redis.cut();
    // A try of the other instance's consumer may have the order's row just then.
    let look = || async { buyer.step(&order, "cancellation").await.expect_status(503) };
    until(BOUND, look, |refused| refused.code() == "dependency_unavailable").await;
    holder.rollback().await.expect("the row is free");
    redis.mend();
    until(BOUND, || buyer.step(&order, "cancellation"), |cancelled| cancelled.status == 200).await;
    assert_clean(&whole, item).await;
}

/// Many buyers of one item, whose lock's servers swallow everything: each is told what is wrong, long
/// before its turn would have come; then nobody waits for them any more; other strategies sell.
async fn without_the_servers_of_a_lock(
    strategy: &str,
    dependency: &str,
    servers: &[String],
    reach_by: impl FnOnce(&mut Config, &[FaultyLink]),
) {
    let (shop, whole) = Shop::open().await;
    let links = join_all(servers.iter().map(|server| link_to(server))).await;
    let attempts = || links.iter().map(FaultyLink::connections).max().unwrap_or_default();
    let instance = shop.start_with(|config| reach_by(config, &links)).await;
    let item = whole.make_item(json!({ "stock": 1_000 })).await;
    assert_eq!(instance.buyer(1).buy(strategy, item).await.status, 201);
    assert_eq!(instance.stranger().get("/readyz").await.json["dependencies"][dependency], "ok");
    links.iter().for_each(|link| link.set(Fault::Silence));
    let buyers: Vec<_> = (2..2 + CALLS).map(|id| instance.buyer(id)).collect();
    for answer in join_all(buyers.iter().map(|buyer| buyer.buy(strategy, item))).await {
        assert_problem(&answer, (503, "dependency_unavailable"), "while its servers are silent");
        assert_eq!(answer.json["outcome"], "none");
        let detail = answer.json["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with(dependency), "{detail}");
    }
    assert!(is_breaker_open(&instance, dependency).await);
    for other in ["mysql", "redis"] {
        assert!(!is_breaker_open(&instance, other).await, "{other}");
    }
    let before = attempts();
    for buyer in &buyers {
        buyer.buy(strategy, item).await.expect_problem(503, "dependency_unavailable");
    }
    let asked = attempts() - before;
    assert!(asked < buyers.len(), "{asked} connections for {} requests", buyers.len());
    for other in ["mysql-atomic", "lock-redis", "redis-lua"] {
        let buyer = instance.buyer(100);
        let answer = buyer.buy(other, whole.make_item(json!({})).await).await;
        assert_eq!(answer.status, 201, "{other}: {}", answer.text);
    }
    let ready = instance.stranger().get("/readyz").await.expect_status(200);
    assert_ne!(ready.json["dependencies"][dependency], "ok", "{}", ready.text);
    links.iter().for_each(FaultyLink::mend);
    until_probed(&instance, strategy, item, dependency).await;
    assert_clean(&whole, item).await;
}

#[tokio::test]
async fn without_etcd_its_lock_is_refused_and_the_rest_sells() {
    let server = crate::support::etcd_url().await;
    let reach_by = |config: &mut Config, links: &[FaultyLink]| {
        config.lock.etcd_endpoints = links[0].url().to_owned();
    };
    without_the_servers_of_a_lock("lock-etcd", "etcd", &[server], reach_by).await;
}

#[tokio::test]
async fn without_zookeeper_its_lock_is_refused_and_the_rest_sells() {
    let server = format!("zookeeper://{}", crate::support::zookeeper_hosts().await);
    let reach_by = |config: &mut Config, links: &[FaultyLink]| {
        config.lock.zookeeper_hosts = links[0].addr().to_string();
    };
    without_the_servers_of_a_lock("lock-zookeeper", "zookeeper", &[server], reach_by).await;
}

#[tokio::test]
async fn without_its_servers_redlock_is_refused_and_the_rest_sells() {
    let servers: Vec<String> = independent_redis().await.iter().map(RedisServer::tcp_url).collect();
    let reach_by = |config: &mut Config, links: &[FaultyLink]| {
        let urls: Vec<&str> = links.iter().map(FaultyLink::url).collect();
        config.lock.redlock_urls = Secret::new(urls.join(","));
    };
    without_the_servers_of_a_lock("lock-redlock", "redlock", &servers, reach_by).await;
}
