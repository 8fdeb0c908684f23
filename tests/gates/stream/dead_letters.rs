//! Dead letters: an entry of the queue that cannot be decided is tried again, then put aside.

use gates::redis_store::queue::Reader;
use serde_json::json;
use shop_domain::ItemId;

use super::{STREAM, deliveries, ends_as, key, queue, queue_of, redis_of, shop};
use crate::http::assert_clean;
use crate::support::{Shop, eventually, when};

/// A shop in which an order that cannot be decided soon becomes a dead letter.
async fn hasty_shop() -> Shop {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 2;
    shop.config.queue.claim_idle_ms = 200;
    shop
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecidable_entry_becomes_a_dead_letter_and_delays_nobody() {
    let shop = hasty_shop().await;
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

/// A ledger that takes no order at all says nothing of one of them: a table is lost, and then a table is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_orders_wait_for_a_ledger_that_takes_none() {
    const ORDERS: i64 = 20;
    let shop = hasty_shop().await;
    let instance = shop.start().await;
    let reader = Reader::new(queue_of(&shop));
    let full = "CREATE TRIGGER filled BEFORE INSERT ON stock_movements FOR EACH ROW \
                SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'it is full'";
    let faults = [
        ["RENAME TABLE stock_movements TO lost", "RENAME TABLE lost TO stock_movements"],
        [full, "DROP TRIGGER filled"],
    ];
    for [begin, end] in faults {
        let item = instance.make_item(json!({ "stock": ORDERS })).await;
        let id = ItemId::new(item).expect("positive");
        sqlx::raw_sql(begin).execute(&shop.pool).await.expect("it begins");
        let orders = queue(&instance, item, ORDERS).await;
        eventually("all orders to come more often than a dead letter may", || async {
            let often = deliveries(&shop, item).await;
            let is_often = often.len() == orders.len() && often.iter().all(|times| *times > 3);
            when(is_often, often)
        })
        .await;
        sqlx::raw_sql(end).execute(&shop.pool).await.expect("it ends");
        for (buyer, order) in (1..).zip(&orders) {
            ends_as(&instance.buyer(buyer), order, "pending").await;
        }
        assert_eq!(reader.queue().dead_letters(id).await.expect("asked"), [], "{begin}");
        assert_eq!(assert_clean(&instance, item).await["held"], ORDERS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_the_ledger_refuses_alone_becomes_a_dead_letter() {
    let shop = hasty_shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let id = ItemId::new(item).expect("positive");
    let trigger = "CREATE TRIGGER refuses BEFORE INSERT ON orders FOR EACH ROW \
                   IF NEW.user_id = 1 THEN SIGNAL SQLSTATE '45000'; END IF";
    sqlx::raw_sql(trigger).execute(&shop.pool).await.expect("a trigger");
    let order = queue(&instance, item, 1).await;
    let reader = Reader::new(queue_of(&shop));
    let letters = eventually("it to be put aside", || async {
        let letters = reader.queue().dead_letters(id).await.expect("asked");
        when(!letters.is_empty(), letters)
    })
    .await;
    let parked = letters[0].order.as_ref().map(|intention| intention.order.to_string());
    assert_eq!((letters.len(), parked), (1, Ok(order[0].clone())));
    assert_eq!(instance.buyer(2).buy_for_good(STREAM, item).await.status, 201);
}
