//! Paid orders that are given back: their money goes back by the refunds of the provider.

use futures::future::join;

use super::*;

/// An item of these units whose orders may be given back.
fn returnable(stock: i64) -> Value {
    json!({ "stock": stock, "return_seconds": 600 })
}

async fn give_back(instance: &Instance, buyer: i64, order: &str) -> Answer {
    instance.buyer(buyer).step(order, "return").await
}

#[tokio::test]
async fn the_money_of_an_order_that_is_given_back_is_owed_once() {
    let (provider, _shop, instance, item) = selling(returnable(2)).await;
    let order = buy(&instance, 1, item).await;
    take(&instance, &provider.succeeded("m1", "p1", &order, 250), "paid").await;
    take(&instance, &provider.refunded("m2", "p1", &order, 50), "partly_refunded").await;
    for _ in 0..2 {
        give_back(&instance, 1, &order).await.assert_fields(200, json!({ "status": "cancelled" }));
    }
    let wanted = payment(&instance, "p1").await;
    assert_eq!((&wanted["reason"], &wanted["refunded_cents"]), (&json!("returned"), &json!(50)));
    until_refund_requested(&instance, "p1").await;
    assert_eq!(provider.refunds(), ["p1"], "asked for once");
    // Money that comes after the return goes back as well, and pays nothing.
    owe(&instance, &provider.succeeded("m3", "p2", &order, 250), "cancelled").await;
    take(&instance, &provider.refunded("m4", "p1", &order, 200), "refunded").await;
    assert_eq!(payment(&instance, "p1").await["refunded_cents"], 250);
    assert_eq!(status(&instance, 1, &order).await, "cancelled");
    eventually("the events", || async {
        let log = instance.admin().get("/api/admin/events").await.json;
        let events = log["events"].as_array().into_iter().flatten();
        let told: Vec<_> =
            events.map(|event| event["data"]["orders"][0]["status"].clone()).collect();
        when(told == ["pending", "paid", "cancelled"], log)
    })
    .await;
    assert_clean(&instance, item).await;
}

/// The provider refunds the order by itself at the moment at which the buyer gives it back.
#[tokio::test]
async fn a_return_beside_a_refund_of_the_provider_owes_no_money_twice() {
    const ORDERS: i64 = 40;
    let (provider, _shop, instance, item) = selling(returnable(ORDERS)).await;
    for buyer in 1..=ORDERS {
        let order = buy(&instance, buyer, item).await;
        let id = format!("p{buyer}");
        take(&instance, &provider.succeeded(&format!("m{buyer}"), &id, &order, 250), "paid").await;
        let refund = provider.refunded(&format!("r{buyer}"), &id, &order, 250);
        let (back, refunded) =
            join(give_back(&instance, buyer, &order), refund.send(&instance)).await;
        assert_eq!(back.json["status"], "cancelled", "{}", back.text);
        refunded.assert_fields(200, json!({ "result": "refunded", "reason": null }));
        let after = payment(&instance, &id).await;
        assert_eq!((&after["status"], &after["refunded_cents"]), (&json!("refunded"), &json!(250)));
    }
    let left = instance.stranger().get(&format!("/api/items/{item}")).await.json;
    assert_eq!(left["available"], ORDERS);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn an_operator_pays_the_money_of_a_return_back_by_hand() {
    let provider = TestProvider::start().await;
    let mut shop = shop_of(&provider).await;
    shop.config.sections.set("payment", "refund_url", "");
    let instance = shop.start().await;
    let item = instance.make_item(returnable(1)).await;
    let order = buy(&instance, 1, item).await;
    take(&instance, &provider.succeeded("m1", "p1", &order, 250), "paid").await;
    let by_hand = async || instance.admin().post("/api/admin/payments/p1/refund", &json!({})).await;
    assert_eq!(by_hand().await.brief(), (409, "payment_accepted"), "it has paid the order");
    assert_eq!(payment(&instance, "p1").await["status"], "accepted");
    assert_eq!(give_back(&instance, 1, &order).await.status, 200);
    by_hand().await.expect_status(204);
    assert_eq!(payment(&instance, "p1").await["status"], "refunded");
    assert_clean(&instance, item).await;
}
