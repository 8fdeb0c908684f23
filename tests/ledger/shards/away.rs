//! A ledger that is away takes its own items along, and no others.

use seckill::config::Secret;
use serde_json::json;

use super::{Sharded, second_server};
use crate::support::{Shop, assert_clean, eventually, unique, when};

/// A shop whose second ledger is on a server of its own.
async fn apart() -> (Sharded, dev_servers::MysqlServer) {
    let server = second_server().await;
    let url = server.url_of(&unique("seckill_second"));
    let sharded =
        Sharded::with(|config| config.shards.urls = Secret::new(format!("1={url}"))).await;
    (sharded, server)
}

/// What is said while the second ledger is away, and that the first one sells.
async fn only_its_items_are_away(sharded: &Sharded, items: &[i64]) {
    let (buyer, stranger) = (sharded.instance.buyer(7), sharded.instance.stranger());
    eventually("the second ledger to be missed", || async {
        let answer = buyer.buy("mysql-atomic", items[1]).await;
        assert!(answer.status >= 500, "{}", answer.text);
        when(answer.status == 503, answer.text)
    })
    .await;
    let metrics = stranger.get("/metrics").await.text;
    assert!(
        metrics.contains("seckill_breaker_open{shard=\"1\",dependency=\"mysql\"}"),
        "{metrics}"
    );
    // The alert SeckillNothingSold tells by this label which ledger sells nothing.
    let sold = r#"seckill_purchases_total{shard="1",strategy="mysql-atomic",outcome="sold"} 1"#;
    assert!(metrics.contains(sold), "{metrics}");
    is_away(sharded, 1).await;
    for strategy in ["mysql-atomic", "mysql-batch", "lock-redis", "redis-lua"] {
        let sold = buyer.buy(strategy, items[0]).await;
        assert_eq!(sold.status, 201, "{strategy}: {}", sold.text);
        let away = buyer.buy(strategy, items[1]).await;
        assert_eq!(
            (away.status, &away.json["code"]),
            (503, &json!("dependency_unavailable")),
            "{strategy}: {}",
            away.text
        );
    }
    let listed = stranger.get("/api/items").await;
    assert_eq!((listed.status, &listed.json["stale"]), (200, &json!(true)), "{}", listed.text);
    let orders = buyer.get("/api/orders").await;
    assert_eq!((orders.status, &orders.json["incomplete"]), (200, &json!(true)), "{}", orders.text);
    let ready = stranger.get("/readyz").await;
    assert_eq!((ready.status, &ready.json["dependencies"]["mysql"]), (200, &json!("ok")));
    assert_ne!(ready.json["dependencies"]["mysql-1"], "ok", "{}", ready.text);
}

/// Waits until the metrics call the second ledger away, or not; the first one is never away.
async fn is_away(sharded: &Sharded, value: u8) {
    eventually("the metric of the second ledger", || async {
        let text = sharded.instance.stranger().get("/metrics").await.text;
        assert!(text.contains("seckill_ledger_away 0\n"), "{text}");
        when(text.contains(&format!("seckill_ledger_away{{shard=\"1\"}} {value}\n")), text)
    })
    .await;
}

async fn both_sell_again(sharded: &Sharded, items: &[i64]) {
    is_away(sharded, 0).await;
    for &item in items {
        eventually("a sale", || async {
            let sold = sharded.instance.buyer(9).buy("mysql-atomic", item).await;
            when(sold.status == 201, sold.text)
        })
        .await;
        assert_clean(&sharded.instance, item).await;
    }
    let orders = sharded.instance.buyer(9).get("/api/orders").await;
    assert!(orders.json.get("incomplete").is_none(), "{}", orders.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_paused_takes_only_its_items_along() {
    let (sharded, server) = apart().await;
    let body = json!({ "stock": 50, "per_buyer_limit": 50, "kind": "shop" });
    let items = sharded.item_in_each(&body).await;
    assert_eq!(sharded.instance.buyer(7).buy("mysql-atomic", items[1]).await.status, 201);
    assert!(server.pause());
    only_its_items_are_away(&sharded, &items).await;
    assert!(server.resume());
    both_sell_again(&sharded, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_killed_takes_only_its_items_along() {
    let (sharded, mut server) = apart().await;
    let body = json!({ "stock": 50, "per_buyer_limit": 50, "kind": "shop" });
    let items = sharded.item_in_each(&body).await;
    assert_eq!(sharded.instance.buyer(7).buy("mysql-atomic", items[1]).await.status, 201);
    server.kill().await;
    only_its_items_are_away(&sharded, &items).await;
    server.restart().await.expect("it comes back");
    both_sell_again(&sharded, &items).await;
}

/// While the home ledger is away, items of others are sold by the routes that are known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_elsewhere_are_sold_while_the_home_ledger_is_away() {
    let server = second_server().await;
    let name = unique("seckill_home");
    let shop = Shop::with_shards(2, |config| {
        config.database_url = Secret::new(server.url_of(&name));
    })
    .await;
    let instance = shop.start().await;
    let body = json!({ "stock": 50, "per_buyer_limit": 50, "shard": 1 });
    let item = instance.make_item(body).await;
    let buyer = instance.buyer(7);
    assert_eq!(buyer.buy("mysql-atomic", item).await.status, 201);
    assert!(server.pause());
    for _ in 0..20 {
        let sold = buyer.buy("mysql-atomic", item).await;
        assert_eq!(sold.status, 201, "{}", sold.text);
    }
    assert!(server.resume());
    eventually("the home ledger to answer", || async {
        let ready = instance.stranger().get("/readyz").await.json;
        when(ready["dependencies"]["mysql"] == "ok", ready)
    })
    .await;
    assert_clean(&instance, item).await;
}
