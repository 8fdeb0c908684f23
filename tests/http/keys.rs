//! `Idempotency-Key`: a retry is the same purchase, and nobody else's.

use crate::support::prelude::*;

#[tokio::test]
async fn a_key_belongs_to_one_buyer_and_one_item() {
    let (shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 5 })).await;
    let other_item = instance.make_item(json!({})).await;
    let (buyer, other) = (instance.buyer(1), instance.buyer(2));
    for strategy in ["lock-redis", "mysql-atomic", "redis-watch"] {
        let key = format!("key-{strategy}");
        let first = buyer.buy_with_key(strategy, item, &key).await;
        let order = order_id(&first);
        assert!(!first.headers.contains_key("idempotency-replayed"));
        // The same by any strategy.
        for again in ["lock-redis", "mysql-atomic", "redis-watch", "default"] {
            let retry = buyer.buy_with_key(again, item, &key).await;
            assert_eq!((retry.status, &retry.json), (201, &first.json), "{again}");
            assert_eq!(retry.headers["idempotency-replayed"], "true");
        }
        let path = format!("/api/seckill/{strategy}/{item}");
        let reused = buyer.request(Method::POST, &path).header("idempotency-key", &key);
        let reused = Client::send(reused.json(&json!({ "quantity": 2 }))).await;
        assert_problem(&reused, (422, "idempotency_key_reused"), "another quantity");
        assert_eq!(reused.json["order_id"], order);
        // Another buyer's request is new, and tells nothing of this one.
        let theirs = other.buy_with_key(strategy, item, &key).await;
        assert_ne!(order_id(&theirs), order);
        assert_eq!(theirs.json["user_id"], 2);
        let reused = other.request(Method::POST, &path).header("idempotency-key", &key);
        let reused = Client::send(reused.json(&json!({ "quantity": 2 }))).await;
        assert_eq!(reused.json["order_id"], theirs.json["id"]);
    }
    let elsewhere = buyer.buy_with_key("default", other_item, "key-lock-redis").await;
    assert_eq!((elsewhere.status, elsewhere.json["item_id"].as_i64()), (201, Some(other_item)));
    assert_eq!(assert_clean(&instance, item).await["orders"], 6);
    // A retry is answered even after the sale, and shows the order as it now stands.
    shop.let_holds_pass(301).await;
    let told = |retry: &Answer| retry.status == 201 && retry.json["status"] == "expired";
    buyer.buy_until("default", item, "key-lock-redis", told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_with_one_key_are_one_order_on_two_instances() {
    let (_shop, here, there) = Shop::new().await.opened_twice().await;
    for strategy in
        ["lock-redis", "lock-redis?store=redis", "mysql-atomic", "mysql-version", "redis-watch"]
    {
        let item = here.make_item(json!({ "per_buyer_limit": 10 })).await;
        let requests = (0..50).map(|number| {
            let client = if number % 2 == 0 { here.buyer(1) } else { there.buyer(1) };
            async move { client.buy_with_key(strategy, item, "one").await }
        });
        let answers = join_all(requests).await;
        let mut orders: Vec<String> = Vec::new();
        for answer in &answers {
            match answer.brief() {
                (201, _) => orders.push(order_id(answer)),
                (409, "request_in_progress") => {}
                other => panic!("{strategy}: {other:?} {}", answer.text),
            }
        }
        assert!(!orders.is_empty(), "{strategy}: nobody got through");
        orders.dedup();
        assert_eq!(orders.len(), 1, "{strategy}: {orders:?}");
        assert_eq!(order_id(&there.buyer(1).buy_with_key(strategy, item, "one").await), orders[0]);
        let audit = assert_clean(&here, item).await;
        assert_eq!((&audit["orders"], &audit["available"]), (&json!(1), &json!(9)), "{strategy}");
    }
}
