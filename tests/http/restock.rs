//! Units that come back are sold at once: an instance that remembers "sold out" forgets it.

use serde_json::json;

use super::{BOUND, assert_clean, assert_problem, eventually, order_id, when};
use crate::support::{Instance, Shop};

const STRATEGY: &str = "mysql-atomic";
/// "Sold out" is remembered for longer than a test takes.
const REMEMBERED_MS: u64 = 600_000;

/// Two buyers are turned away, the second one from memory.
async fn is_remembered_as_sold_out(instance: &Instance, item: i64) {
    for buyer in [98, 99] {
        let answer = instance.buyer(buyer).buy(STRATEGY, item).await;
        assert_problem(&answer, (409, "sold_out"), "nothing is left");
    }
}

#[tokio::test]
async fn units_that_come_back_are_sold_at_once() {
    let shop = Shop::with(|config| config.purchase.sold_out_ms = REMEMBERED_MS).await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 1, "hold_seconds": 300 })).await;
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201);

    is_remembered_as_sold_out(&instance, item).await;
    let path = format!("/api/admin/items/{item}");
    let restocked = instance.admin().patch(&path, &json!({ "stock_delta": 1 })).await;
    assert_eq!(restocked.status, 200, "{}", restocked.text);
    let sold = instance.buyer(2).buy(STRATEGY, item).await;
    assert_eq!(sold.status, 201, "after a restock: {}", sold.text);

    is_remembered_as_sold_out(&instance, item).await;
    let path = format!("/api/orders/{}/cancellation", order_id(&sold));
    let cancelled = instance.buyer(2).post(&path, &json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    let sold = instance.buyer(3).buy(STRATEGY, item).await;
    assert_eq!(sold.status, 201, "after a cancellation: {}", sold.text);

    is_remembered_as_sold_out(&instance, item).await;
    shop.let_holds_pass(301).await;
    eventually(BOUND, || async {
        let sold = instance.buyer(4).buy(STRATEGY, item).await;
        when(sold.status == 201, sold).map_err(|sold| sold.text)
    })
    .await;

    let metrics = instance.stranger().get("/metrics").await.text;
    let from_memory = metrics.lines().find_map(|line| {
        line.strip_prefix("seckill_sold_out_from_memory_total ")?.parse::<u64>().ok()
    });
    assert!(from_memory >= Some(3), "nobody was turned away from memory: {from_memory:?}");
    assert_clean(&instance, item).await;
}
