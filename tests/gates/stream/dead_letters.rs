//! Dead letters: an entry of the queue that cannot be decided is tried again, then put aside.

use futures::StreamExt;
use gates::redis_store::queue::{DeadLetter, Reader};
use ledger::write::{Arbiter, StockWrite};

use super::*;

/// A shop in which an order that cannot be decided soon becomes a dead letter.
async fn hasty_shop() -> Shop {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 2;
    shop.config.queue.claim_idle_ms = 200;
    shop
}

/// Has the ledger answer an INSERT of such an order with an error.
async fn refuse(shop: &Shop, condition: &str) {
    let trigger = format!(
        "CREATE TRIGGER refuses BEFORE INSERT ON orders FOR EACH ROW \
         IF {condition} THEN SIGNAL SQLSTATE '45000'; END IF"
    );
    sqlx::raw_sql(&trigger).execute(&shop.pool).await.expect("a trigger");
}

/// Adds an entry to an item's queue that is no order, and returns its id.
async fn plant(shop: &Shop, item: i64) -> String {
    shop.redis(&["XADD", &key(shop, item, "queue"), "*", "order", "no order"]).await
}

/// Waits until the item has dead letters, and returns the ids of their orders.
async fn parked(reader: &Reader, item: ItemId) -> Vec<String> {
    let listed = || async { reader.queue().dead_letters(item).await.expect("asked") };
    let letters = until("an order to be put aside", listed, |letters| !letters.is_empty()).await;
    let order = |letter: &DeadLetter| letter.order.as_ref().expect("an order").order.to_string();
    letters.iter().map(order).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undecidable_entry_becomes_a_dead_letter_and_delays_nobody() {
    let (shop, instance) = hasty_shop().await.opened().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy_for_good(STREAM, item).await.status, 201);
    plant(&shop, item).await;
    assert_eq!(instance.buyer(2).buy_for_good(STREAM, item).await.status, 201);
    let lengths = eventually("it to be put aside", || async {
        let length = async |part: &str| shop.redis::<u64>(&["XLEN", &key(&shop, item, part)]).await;
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
    let entry = plant(&shop, item).await;
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
    let (shop, instance) = hasty_shop().await.opened().await;
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

/// Whatever it is of the order that the ledger does not take, it takes those of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_the_ledger_refuses_alone_becomes_a_dead_letter() {
    let (shop, instance) = hasty_shop().await.opened().await;
    for index in 0..5 {
        let item = instance.make_item(json!({ "per_buyer_limit": 2 })).await;
        let id = ItemId::new(item).expect("positive");
        let refused = support::purchase(&shop, id, 2, (STREAM, "k")).await;
        let conditions = [
            format!("NEW.id = '{}'", refused.order_id),
            format!("NEW.user_id = {}", refused.buyer.get()),
            format!("NEW.quantity = {}", refused.quantity.signed()),
            format!("NEW.amount_cents = {}", refused.amount.cents()),
            format!("NEW.request_key = '{}'", refused.key.as_str()),
        ];
        refuse(&shop, &conditions[index]).await;
        let queue = queue_of(&shop);
        push(&queue, &refused).await;
        assert_eq!(parked(&Reader::new(queue), id).await, [refused.order_id.to_string()]);
        assert_eq!(instance.buyer(2).buy_for_good(STREAM, item).await.status, 201);
        sqlx::raw_sql("DROP TRIGGER refuses").execute(&shop.pool).await.expect("it was there");
    }
}

/// The key belongs to another order, and the ledger does not store the refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_refusal_is_not_stored_becomes_a_dead_letter() {
    let (shop, instance) = hasty_shop().await.opened().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    instance.buyer(1).buy_with_key("mysql-atomic", item, "k").await.expect_status(201);
    // Under another key it would, but the key is not why it does not.
    refuse(&shop, "NEW.status = 'rejected' AND NEW.request_key = 'k'").await;
    let refused = purchase(&shop, item, "k").await;
    let queue = queue_of(&shop);
    push(&queue, &refused).await;
    let letters = parked(&Reader::new(queue), refused.item.id).await;
    assert_eq!(letters, [refused.order_id.to_string()]);
}

/// The acknowledgement of a sold order is lost, and from then on the ledger answers its statements with an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sold_order_does_not_become_a_dead_letter() {
    let (shop, maker) = hasty_shop().await.opened().await;
    let item = maker.make_item(json!({})).await;
    // Nothing consumes the queue meanwhile.
    maker.stop().await;
    let purchase = purchase(&shop, item, "k").await;
    let queue = queue_of(&shop);
    push(&queue, &purchase).await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let sold = arbiter.sell(&purchase, StockWrite::Guarded, None).await;
    assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
    refuse(&shop, "NEW.user_id = 1").await;
    let instance = shop.start().await;
    let reader = Reader::new(queue);
    let id = purchase.item.id;
    let lengths = eventually("the entry to leave the queue", || async {
        let lengths = reader.lengths(&[id]).concat().await;
        matches!(lengths[..], [(_, Ok((0, _)))]).then_some(lengths)
    })
    .await;
    assert!(matches!(lengths[..], [(_, Ok((0, 0)))]), "it is still queued: {lengths:?}");
    assert_eq!(reader.queue().dead_letters(id).await.expect("asked"), []);
    ends_as(&instance.buyer(1), &purchase.order_id.to_string(), "pending").await;
    assert_eq!(assert_clean(&instance, item).await["held"], 1);
}

/// Two consumers have an entry. One acknowledges its order before the other one gives it up.
#[tokio::test]
async fn an_entry_that_is_acknowledged_does_not_become_a_dead_letter() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    instance.stop().await;
    let queue = queue_of(&shop);
    let purchase = purchase(&shop, item, "k").await;
    push(&queue, &purchase).await;
    let reader = Reader::new(queue);
    let id = purchase.item.id;
    let entries = reader.read(id, 10).await.expect("asked");
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    let intention = entry.order.as_ref().expect("an order");
    assert!(reader.ack(id, &entry.id, intention, false).await.expect("asked"));
    let moved = reader.move_to_dead_letters(id, entry, "for a test").await.expect("asked");
    assert!(!moved, "it was in the queue no more");
    assert_eq!(reader.queue().dead_letters(id).await.expect("asked"), []);
}
