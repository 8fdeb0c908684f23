//! Orders that cost nothing: no provider is asked, as in other shops (saleor PR 8938, django-oscar PR 1348).

use super::*;

#[tokio::test]
async fn an_order_of_nothing_is_paid_without_the_provider() {
    let free = json!({ "stock": 3, "price_cents": 0, "return_seconds": 600, "hold_seconds": 900 });
    let (provider, shop, instance, item) = selling(free).await;
    let order = buy(&instance, 1, item).await;
    let path = format!("/api/orders/{order}/payment");
    assert_eq!(instance.buyer(2).post(&path, &json!({})).await.brief(), (404, "order_not_found"));
    assert_eq!(status(&instance, 1, &order).await, "pending", "nobody has confirmed it");
    // Twice, since an answer may be lost.
    for turn in ["first", "again"] {
        let paid = instance.buyer(1).post(&path, &json!({})).await;
        let seen = (paid.status, &paid.json["status"], &paid.json["checkout_url"]);
        assert_eq!(seen, (200, &json!("paid"), &Value::Null), "{turn}: {}", paid.text);
    }
    let seen = instance.buyer(1).get(&format!("/api/orders/{order}")).await.json;
    assert_eq!((&seen["amount_cents"], &seen["paid_elsewhere"]), (&json!(0), &Value::Null));
    // A provider that tells of a payment of nothing all the same changes nothing.
    take(&instance, &provider.succeeded("m1", "p1", &order, 0), "unchanged").await;
    let events = instance.until_events(2).await;
    assert!(events.to_string().contains("\"paid\""), "{events}");
    // Given back, no money has to go back.
    let back = instance.buyer(1).step(&order, "return").await;
    assert_eq!((back.status, &back.json["status"]), (200, &json!("cancelled")), "{}", back.text);
    let wanted = instance.admin().get("/api/admin/payments?status=refund_wanted").await;
    assert_eq!(wanted.json["payments"], json!([]));
    // One that ran out is confirmed while stock is left.
    let late = buy(&instance, 2, item).await;
    expire(&shop, &instance, 2, &late).await;
    instance.buyer(2).step(&late, "payment").await.assert_fields(200, json!({ "status": "paid" }));
    assert_clean(&instance, item).await;
}

/// A cart with one line that costs something is paid at the provider.
#[tokio::test]
async fn a_cart_is_free_only_if_all_of_it_is() {
    let provider = TestProvider::start().await;
    let (_shop, instance) = shop_of(&provider).await.opened().await;
    let free = instance.make_item(json!({ "stock": 5, "price_cents": 0 })).await;
    let gift = instance.make_item(json!({ "stock": 5, "price_cents": 0 })).await;
    let dear = instance.make_item(json!({ "stock": 5 })).await;
    for (buyer, items, expected) in [(1, [free, gift], "paid"), (2, [free, dear], "pending")] {
        let lines = items.map(|item| json!({ "item_id": item, "quantity": 1 }));
        let client = instance.buyer(buyer);
        let made = client.post("/api/reservations", &json!({ "lines": lines })).await;
        let paid = client.step(&order_id(&made), "payment").await;
        paid.assert_fields(200, json!({ "status": expected }));
        assert_eq!(paid.json["checkout_url"].is_string(), expected == "pending", "{}", paid.text);
    }
}
