//! Amounts, currencies and states of payments, and what a sender of forged messages may cost.

use ledger::order::refund;
use shop_domain::payment::PaymentId;

use super::*;

#[tokio::test]
async fn a_refund_of_a_part_refunds_no_payment() {
    let (provider, shop, instance, item) = selling(json!({ "stock": 3 })).await;
    let order = buy(&instance, 1, item).await;
    take(&instance, &provider.succeeded("m1", "p1", &order, 250), "paid").await;
    let state = async || {
        let payment = payment(&instance, "p1").await;
        (payment["status"].clone(), payment["refunded_cents"].clone())
    };
    let cent = provider.refunded("m2", "p1", &order, 1);
    take(&instance, &cent, "partly_refunded").await;
    take(&instance, &cent, "unchanged").await;
    assert_eq!(state().await, (json!("accepted"), json!(1)), "a refund counts once");
    take(&instance, &provider.refunded("m3", "p1", &order, 248), "partly_refunded").await;
    assert_eq!(state().await, (json!("accepted"), json!(249)));
    take(&instance, &provider.refunded("m4", "p1", &order, 1), "refunded").await;
    take(&instance, &provider.refunded("m8", "p1", &order, 1), "unchanged").await;
    assert_eq!(state().await, (json!("refunded"), json!(250)), "all of it had gone back");
    assert_eq!(status(&instance, 1, &order).await, "paid", "the goods are the shop's to decide");
    // The try of another instance, which ends later, says nothing of a refund that was made.
    let id = PaymentId::parse("p1").expect("an id");
    let failed = Err(("no answer", Duration::from_secs(2)));
    refund::note_request(&shop.pool, &id, failed).await.expect("the ledger answers");
    assert_has(&payment(&instance, "p1").await, json!({ "failures": 0, "last_error": null }));
    // Nor does the provider's answer to a request, which comes behind its message.
    refund::note_request(&shop.pool, &id, Ok(())).await.expect("the ledger answers");
    assert_eq!(state().await, (json!("refunded"), json!(250)), "no money is owed again");
    // Parts that go back before their payment leave the rest to go back.
    let order = buy(&instance, 2, item).await;
    for message in ["m5", "m9"] {
        take(&instance, &provider.refunded(message, "p2", &order, 1), "refunded").await;
    }
    owe(&instance, &provider.succeeded("m6", "p2", &order, 250), "wrong_amount").await;
    let seen = payment(&instance, "p2").await;
    assert_eq!((&seen["amount_cents"], &seen["refunded_cents"]), (&json!(250), &json!(2)));
    assert_eq!(status(&instance, 2, &order).await, "pending");
    take(&instance, &provider.refunded("m7", "p2", &order, 248), "refunded").await;
    // Some providers tell of one refund when it begins and when it ends. It counts once.
    let order = buy(&instance, 3, item).await;
    take(&instance, &provider.succeeded("m13", "p3", &order, 250), "paid").await;
    let about = json!({
        "type": "refund.succeeded", "payment": "p3", "order": order, "amount_cents": 150,
        "refund": "r1",
    });
    for (message, result) in [("m14", "partly_refunded"), ("m10", "unchanged")] {
        take(&instance, &provider.message(message, &about.to_string()), result).await;
    }
    assert_eq!(payment(&instance, "p3").await["refunded_cents"], 150);
    // A value that is no id says nothing, and each message counts.
    let about = json!({ "refund": { "id": "r1" }, "type": "refund.succeeded", "payment": "p3",
        "order": order, "amount_cents": 50 });
    for (message, result) in [("m11", "partly_refunded"), ("m12", "refunded")] {
        take(&instance, &provider.message(message, &about.to_string()), result).await;
    }
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn an_address_that_forges_messages_is_limited_and_a_provider_is_not() {
    let provider = TestProvider::start().await;
    let mut shop = shop_of(&provider).await;
    shop.config.limits.loopback_exempt = false;
    shop.config.limits.address_per_second = 1;
    shop.config.limits.address_burst = 5;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 21 })).await;
    let order = buy(&instance, 1, item).await;
    let good = provider.succeeded("m1", "p1", &order, 250);
    // At once, and each of them about another order.
    let mut crowd = Vec::new();
    for buyer in 2..=21 {
        let order = buy(&instance, buyer, item).await;
        let name = |kind: &str| format!("{kind}-{buyer}");
        crowd.push(provider.succeeded(&name("m"), &name("p"), &order, 250));
    }
    for answer in join_all(crowd.iter().map(|message| message.send(&instance))).await {
        assert_eq!(answer.status, 200, "a genuine message of many: {}", answer.text);
    }
    for turn in 0..50 {
        assert_eq!(good.send(&instance).await.status, 200, "genuine message {turn}");
    }
    let forged = good.with_id("m2");
    let mut refused = 0;
    for _ in 0..50 {
        let answer = forged.send(&instance).await;
        match answer.status {
            403 => {}
            _ => {
                assert_eq!(answer.brief(), (429, "rate_limited"));
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "an address may forge as often as it likes");
}
