//! The arbiter and the counters against real servers, when a fence or a counter is older than the ledger.

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

/// The copy has units that were sold since.
#[tokio::test]
async fn a_copy_of_an_earlier_load_in_redis_is_loaded_again() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 4 })).await;
    let key = format!("{}{{item:{item}}}:stock", shop.config.redis.prefix);
    assert_eq!(instance.buyer(1).buy("redis-watch", item).await.status, 201);
    let () = shop.redis(&["DEL", &key]).await;
    assert_eq!(instance.buyer(2).buy("redis-watch", item).await.status, 201);
    let () = shop.redis(&["HSET", &key, "epoch", "1", "available", "500"]).await;
    assert_eq!(instance.buyer(3).buy("redis-watch", item).await.status, 201);
    let audit = instance.audit(item).await;
    assert_eq!(audit["redis_available"], audit["available"], "{audit}");
    assert_eq!(instance.buyer(4).buy("redis-watch", item).await.status, 201);
    assert_eq!(instance.buyer(5).buy("redis-watch", item).await.brief(), (409, "sold_out"));
}
