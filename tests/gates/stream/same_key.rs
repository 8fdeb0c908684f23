//! One key, several requests: with a queued order there is one order for the key.

use futures::StreamExt;
use gates::redis_store::queue::{Push, Reader};

use super::*;
use crate::gates::loads::by_way_of;

/// The ledger is asked about a key before anything is queued under it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_an_order_already_is_not_queued() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let bought = buyer.buy_with_key("mysql-atomic", item, "once").await.expect_status(201);
    let request = buyer.request(Method::POST, &purchase_path(STREAM, item));
    let request = request.header("idempotency-key", "once").json(&json!({ "quantity": 2 }));
    let reused = Client::send(request).await;
    assert_eq!(reused.brief(), (422, "idempotency_key_reused"), "{}", reused.text);
    let again = buyer.buy_with_key(STREAM, item, "once").await;
    assert_eq!((again.status, &again.json["id"]), (201, &bought.json["id"]), "{}", again.text);
    assert_eq!(in_ledger(&shop, item).await, [bought.json["id"].as_str().expect("an id")]);
    assert_eq!(assert_clean(&instance, item).await["held"], 1);
}

/// An instance that had not heard of the order queues another one under its key. Nobody repairs the
/// counter here, so the unit comes back with the refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_order_whose_key_is_another_order_is_rejected_and_its_unit_comes_back() {
    let mut shop = shop().await;
    shop.config.job.reconcile_period_ms = 3_600_000;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let sold = order_id(&buyer.buy_with_key("mysql-atomic", item, "k").await);
    let purchase = purchase(&shop, item, "k").await;
    push(&queue_of(&shop), &purchase).await;
    ends_as(&buyer, &purchase.order_id.to_string(), "rejected").await;
    assert_eq!(in_ledger(&shop, item).await, [sold]);
    instance.until_audit(item, "redis_queued", 0).await;
    until_metric(&instance.stranger(), "seckill_counters_given_back_total 1").await;
    assert_eq!(counted(&shop, item).await, 4);
    assert_clean(&instance, item).await;
}

/// While a key is looked for in the queue, its order gets from there to the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_leaves_the_queue_during_the_look_is_found() {
    let shop = shop().await;
    let link = link_to(&redis_url().await).await;
    let mut far = by_way_of(&link, &shop);
    far.config.redis.command_timeout_ms = 9_000;
    // It leaves the queue to the other instance.
    let here = start_aside(&far).await;
    let item = here.make_item(json!({})).await;
    let purchase = purchase(&shop, item, "k").await;
    push(&queue_of(&shop), &purchase).await;
    shop.change(sqlx::query("UPDATE items SET paused = 1 WHERE id = ?").bind(item)).await;
    eventually("the pause to be seen", || async {
        let request = here.buyer(2).request(Method::POST, &purchase_path("mysql-atomic", item));
        // More than a buyer may have.
        let refused = Client::send(request.json(&json!({ "quantity": 9 }))).await;
        (refused.code() == "sale_paused").then_some(())
    })
    .await;
    link.set(Fault::Stall);
    let buyer = here.buyer(1);
    let asked = tokio::spawn(async move { buyer.buy_with_key("mysql-atomic", item, "k").await });
    let there = shop.start().await;
    ends_as(&there.buyer(1), &purchase.order_id.to_string(), "pending").await;
    there.until_audit(item, "redis_queued", 0).await;
    link.mend();
    let told = asked.await.expect("no panic");
    assert_eq!(told.status, 201, "it is an order: {}", told.text);
    assert_eq!(order_id(&told), purchase.order_id.to_string());
}

/// Redis is away, and with it the order that waits there: nothing definite is said about its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_not_refused_while_its_queue_does_not_answer() {
    let shop = shop().await;
    let link = link_to(&redis_url().await).await;
    let mut far = by_way_of(&link, &shop);
    far.config.redis.command_timeout_ms = 400;
    let instance = start_aside(&far).await;
    let item = instance.make_item(json!({})).await;
    let purchase = purchase(&shop, item, "k").await;
    push(&queue_of(&shop), &purchase).await;
    shop.change(sqlx::query("UPDATE items SET paused = 1 WHERE id = ?").bind(item)).await;
    // More than a buyer may have.
    let nine = json!({ "quantity": 9 });
    let path = purchase_path("mysql-atomic", item);
    let other = || async { instance.buyer(2).post(&path, &nine).await };
    until("the pause to be seen", other, |refused| refused.code() == "sale_paused").await;
    link.cut();
    let buyer = instance.buyer(1);
    let refused = buyer.buy_with_key("mysql-atomic", item, "k").await;
    assert_problem(&refused, (503, "dependency_unavailable"), "its order is queued");
    link.mend();
    let told = buyer.buy_until("mysql-atomic", item, "k", |told| told.status == 202).await;
    assert_eq!(order_id(&told), purchase.order_id.to_string());
}

/// No consumer runs, so the scripts are tested alone.
#[tokio::test]
async fn a_queued_order_is_known_by_its_key_and_settled_once() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    instance.stop().await;
    let (queue, first) = (queue_of(&shop), purchase(&shop, item, "k").await);
    push(&queue, &first).await;
    // The memory of requests runs out while the order waits.
    let () = shop.redis(&["DEL", &key(&shop, item, "requests")]).await;
    let again =
        queue.push(&purchase(&shop, item, "k").await, None, in_a_minute()).await.expect("asked");
    assert_eq!(again, Push::Known { order: first.order_id, units: 1, is_replicated: true });
    assert_eq!(counted(&shop, item).await, 4);
    let (reader, id) = (Reader::new(queue), first.item.id);
    let entries = reader.read(id, 10).await.expect("asked");
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    let intention = entry.order.as_ref().expect("an order");
    for was_queued in [true, false] {
        let settled = reader.ack(id, &entry.id, intention, true).await.expect("asked");
        assert_eq!((settled, counted(&shop, item).await), (was_queued, 5));
    }
    let lengths = reader.lengths(&[id]).concat().await;
    assert!(matches!(lengths[..], [(_, Ok((0, 0)))]), "something is left: {lengths:?}");
}

/// What requests queued is remembered for a while, not for the whole sale; and a request that is still
/// asked for stays known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_were_queued_are_forgotten_after_a_while() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
    let queue = queue_of(&shop);
    let queued = key(&shop, item, "queued");
    let requests = key(&shop, item, "requests");
    // Each order is decided, so that nothing but the memory of requests knows it.
    let push = async |request: &str| {
        let purchase = purchase(&shop, item, request).await;
        let answer = queue.push(&purchase, None, in_a_minute()).await.expect("asked");
        let fields = || async { shop.redis::<u64>(&["HLEN", &queued]).await };
        until("the order to be decided", fields, |fields| *fields == 0).await;
        answer
    };
    // As if its time were over, twice.
    let time_is_over = async || {
        let () = shop.redis(&["HSET", &requests, "since", "1"]).await;
    };
    assert_eq!(push("first").await, Push::Queued { is_replicated: true });
    assert_eq!(push("asked-again").await, Push::Queued { is_replicated: true });
    time_is_over().await;
    assert_eq!(push("second").await, Push::Queued { is_replicated: true });
    let known = push("asked-again").await;
    assert!(matches!(known, Push::Known { .. }), "within the time that is promised: {known:?}");
    time_is_over().await;
    assert_eq!(push("third").await, Push::Queued { is_replicated: true });
    for request in ["asked-again", "second", "third"] {
        let known = push(request).await;
        assert!(matches!(known, Push::Known { .. }), "{request}: {known:?}");
    }
    for hash in [&requests, &format!("{requests}-before")] {
        let fields: Vec<String> = shop.redis(&["HKEYS", hash]).await;
        assert!(fields.iter().all(|field| !field.ends_with(":first")), "{fields:?}");
        assert!(fields.len() <= 4, "{fields:?}");
    }
    assert_clean(&instance, item).await;
}
