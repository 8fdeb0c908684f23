//! Dead letters: an entry of the queue that cannot be decided is tried again, then put aside.

use gates::redis_store::queue::Reader;
use serde_json::json;
use shop_domain::ItemId;

use super::{STREAM, key, queue_of, redis_of, shop};
use crate::http::assert_clean;
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecidable_entry_becomes_a_dead_letter_and_delays_nobody() {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 2;
    shop.config.queue.claim_idle_ms = 200;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy_for_good(STREAM, item).await.status, 201);
    let mut connection = redis_of(&shop);
    let _: String = redis::cmd("XADD")
        .arg(key(&shop, item, "queue"))
        .arg(&["*", "order", "no order"])
        .query_async(&mut connection)
        .await
        .expect("planted");
    assert_eq!(instance.buyer(2).buy_for_good(STREAM, item).await.status, 201);
    let lengths = eventually("it to be put aside", || async {
        let mut connection = connection.clone();
        let mut length = async |part: &str| {
            let mut command = redis::cmd("XLEN");
            command.arg(key(&shop, item, part));
            command.query_async::<u64>(&mut connection).await.expect("asked")
        };
        let (parked, waiting) = (length("parked").await, length("queue").await);
        let metrics = instance.stranger().get("/metrics").await.text;
        let counted = metrics.contains("seckill_queue_parked_total 1");
        (parked > 0 && counted).then_some((parked, waiting))
    })
    .await;
    assert_eq!(lengths, (1, 0));
    assert_eq!(assert_clean(&instance, item).await["held"], 2);
}

/// Trouble may pass: an order becomes a dead letter after `queue.deliveries_max` deliveries, not
/// after the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecidable_entry_is_tried_again_before_it_becomes_a_dead_letter() {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 1_000_000;
    shop.config.queue.claim_idle_ms = 200;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy_for_good(STREAM, item).await.status, 201);
    let mut plant = redis::cmd("XADD");
    plant.arg(key(&shop, item, "queue")).arg(&["*", "order", "no order"]);
    let entry: String = plant.query_async(&mut redis_of(&shop)).await.expect("planted");
    let (reader, id) = (Reader::new(queue_of(&shop)), ItemId::new(item).expect("positive"));
    eventually("it to come a third time", || async {
        (reader.deliveries(id, &entry).await.expect("asked") >= 3).then_some(())
    })
    .await;
    assert_eq!(reader.queue().dead_letters(id).await.expect("asked"), []);
}
