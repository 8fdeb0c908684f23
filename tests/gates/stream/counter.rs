//! The item's counter in Redis counts the queued orders.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_loaded_again_knows_what_is_queued() {
    let (shop, instance) = shop().await.opened().await;
    // With the arbiter off nothing but the counter stands between the queue and overselling.
    let item = instance.make_item(json!({ "stock": 5, "arbiter": "off" })).await;
    let holder = hold_up(&shop, item).await;
    queue(&instance, item, 3).await;
    let () = shop.redis(&["DEL", &key(&shop, item, "stock")]).await;
    let presses = (11..=18).map(async |id| instance.buyer(id).buy(STREAM, item).await.status);
    let statuses = join_all(presses).await;
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 2, "{statuses:?}");
    holder.rollback().await.expect("the row is free");
    instance.until_audit(item, "redis_queued", 0).await;
    assert_eq!(in_ledger(&shop, item).await.len(), 5);
    assert_eq!(instance.audit(item).await["oversold"], 0);
}
