//! The arbiter against a real server: what happens when a transaction goes wrong half-way.

use crate::support::prelude::*;

#[tokio::test]
async fn a_stale_fence_is_refused_and_the_counter_catches_up() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    assert_eq!(instance.buyer(1).buy("lock-redis", item).await.status, 201);
    // As if a later holder had written: its clock was an hour ahead.
    let ahead = "UPDATE fences SET fence = fence + 3600000000 WHERE item_id = ?";
    shop.change(sqlx::query(ahead).bind(item)).await;
    assert_eq!(instance.buyer(2).buy("lock-redis", item).await.brief(), (503, "contended"));
    let metrics = instance.stranger().get("/metrics").await.text;
    let counted =
        "seckill_arbiter_refusals_by_reason_total{strategy=\"lock-redis\",reason=\"fenced\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    // The lock knows as well that a hold of it came too late.
    let counted = "seckill_lock{kind=\"token\",backend=\"redis\",event=\"fenced\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    // The refusal raised the counter in Redis, so the sale goes on.
    assert_eq!(instance.buyer(2).buy("lock-redis", item).await.status, 201);
    assert_eq!(instance.audit(item).await["clean"], true);
}

#[tokio::test]
async fn an_emptied_redis_is_noticed_and_loaded_from_the_ledger() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 5 })).await;
    assert_eq!(instance.buyer(1).buy("redis-watch", item).await.status, 201);
    let key = format!("{}{{item:{item}}}:stock", shop.config.redis.prefix);
    for round in 0..2 {
        if round == 0 {
            let () = shop.redis(&["DEL", &key]).await;
        } else {
            // An older copy: a lower epoch, with stock that was sold since.
            let () = shop.redis(&["HSET", &key, "epoch", "1", "available", "500"]).await;
        }
        let buyer = instance.buyer(2 + round);
        assert_eq!(buyer.buy("redis-watch", item).await.status, 201, "round {round}");
        let audit = instance.audit(item).await;
        assert_eq!(audit["redis_available"], audit["available"], "{audit}");
    }
    assert_eq!(instance.buyer(4).buy("redis-watch", item).await.status, 201);
    assert_eq!(instance.buyer(5).buy("redis-watch", item).await.status, 201);
    assert_eq!(instance.buyer(6).buy("redis-watch", item).await.brief(), (409, "sold_out"));
}

#[tokio::test]
async fn planted_faults_are_named_by_the_audit() {
    let (shop, instance) = Shop::open().await;
    // Each with the broken invariants, and whether all others hold.
    for (statement, invariants, is_all) in [
        ("DELETE FROM orders WHERE item_id = :item LIMIT 1", &["I1", "I4"][..], false),
        ("UPDATE orders SET quantity = 2 WHERE item_id = :item LIMIT 1", &["I1", "I2"], false),
        ("DELETE FROM stock_movements WHERE item_id = :item LIMIT 1", &["I3", "I4"], true),
        ("UPDATE orders SET user_id = 99 WHERE item_id = :item LIMIT 1", &["I2"], true),
        ("UPDATE stock SET available = available + 1 WHERE item_id = :item", &["I1", "I3"], true),
        ("UPDATE orders SET status = 'cancelled' WHERE item_id = :item LIMIT 1", &["I5"], false),
        ("UPDATE fences SET fence = 1 WHERE item_id = :item", &["I6"], true),
    ] {
        let item = instance.make_item(json!({ "per_buyer_limit": 2 })).await;
        for id in 1..=3 {
            assert_eq!(instance.buyer(id).buy("lock-redis", item).await.status, 201);
        }
        assert_eq!(instance.audit(item).await["clean"], true);
        let planted =
            shop.change(sqlx::query(&statement.replace(":item", &item.to_string()))).await;
        assert!(planted > 0, "{statement}");
        let broken = instance.broken(item).await;
        let named = broken.iter().filter(|one| invariants.contains(&one.as_str())).count();
        assert_eq!(named, invariants.len(), "{statement}: {broken:?}");
        assert!(!is_all || broken.len() == named, "{statement}: {broken:?}");
    }
}
