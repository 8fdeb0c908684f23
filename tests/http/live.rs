//! What the operator's console asks for again and again.

use crate::support::prelude::*;

#[tokio::test]
async fn a_sale_is_seen_with_its_orders_outcomes_and_counters() {
    let (_shop, instance, there) = Shop::new().await.opened_twice().await;
    let item = instance.make_item(json!({ "stock": 3, "strategy": "redis-lua" })).await;
    let other = instance.make_item(json!({})).await;
    let look = async || instance.admin().get(&format!("/api/admin/items/{item}/live")).await;
    let before = look().await.expect_status(200);
    assert_eq!((&before.json["total"], &before.json["available"]), (&json!(3), &json!(3)));
    assert_eq!(before.json["counter_available"], json!(null), "nobody has loaded it yet");
    assert_eq!((&before.json["orders"], &before.json["purchases"]), (&json!({}), &json!({})));

    let orders = [1, 2, 3].map(|buyer| instance.buyer(buyer));
    let mut ids = Vec::new();
    for buyer in &orders {
        ids.push(order_id(&buyer.buy("default", item).await));
    }
    orders[0].post(&format!("/api/orders/{}/payment", ids[0]), &json!({})).await;
    orders[1].post(&format!("/api/orders/{}/cancellation", ids[1]), &json!({})).await;
    orders[0].buy("default", item).await;
    order_id(&orders[0].buy("default", other).await);

    let after =
        until(BOUND, || async { look().await }, |after| after.json["counter_available"] == 1).await;
    let one = json!({ "orders": 1, "units": 1 });
    assert_eq!(after.json["orders"], json!({ "pending": one, "paid": one, "cancelled": one }));
    assert_eq!(after.json["purchases"], json!({ "sold": 3, "limit_reached": 1 }));
    assert_eq!((&after.json["available"], &after.json["drift"]), (&json!(1), &json!(0)));
    assert_eq!(after.json["instance"], before.json["instance"]);
    assert!(after.json["server_time"].is_string());
    // The arbiter's refusals and the instance are named.
    let item = instance.make_item(json!({ "strategy": "mysql-atomic" })).await;
    let path = format!("/api/admin/items/{item}/live");
    for _ in 0..2 {
        instance.buyer(1).buy("default", item).await;
    }
    let (here, there) = (instance.admin().get(&path).await, there.admin().get(&path).await);
    assert_eq!(here.json["arbiter_refusals"], 1);
    assert_eq!(here.json["purchases"], json!({ "sold": 1, "limit_reached": 1 }));
    // The ledger is everyone's, the counts are each instance's own.
    assert_eq!(here.json["orders"], there.json["orders"]);
    assert_eq!(there.json["purchases"], json!({}));
    assert_ne!(here.json["instance"], there.json["instance"]);
}
