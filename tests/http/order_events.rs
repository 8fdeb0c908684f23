//! The stream of one's own orders.

use super::*;

/// How long a try waits for an event before it buys once more.
const PATIENCE: Duration = Duration::from_millis(300);

/// The stream.
const PATH: &str = "/api/orders/events";

fn tells(order: &str, status: &str) -> impl Fn(&Event) -> bool {
    move |event| {
        event.name == "order" && event.data["id"] == order && event.data["status"] == status
    }
}

/// On the instance that sells, and on another one.
#[tokio::test]
async fn an_owner_hears_of_purchase_payment_and_expiry() {
    let (shop, here, there) = Shop::new().await.opened_twice().await;
    let item = here.make_item(json!({ "stock": 1_000, "per_buyer_limit": 1_000 })).await;
    let buyer = here.buyer(1);
    let mut streams = [buyer.events(PATH).await, there.buyer(1).events(PATH).await];
    let mut of_another = here.buyer(2).events(PATH).await;
    // The instances may not have found each other yet: the first events may be lost. Any later one will do: on a busy
    // machine each may come only after the next order was made.
    let started = tokio::time::Instant::now();
    let mut orders = Vec::new();
    let order = loop {
        orders.push(order_id(&buyer.buy("default", item).await));
        let of_any = |event: &Event| orders.iter().any(|order| tells(order, "pending")(event));
        match streams[1].seek(PATIENCE, of_any).await {
            Ok(told) => break told.data["id"].as_str().expect("an id").to_owned(),
            Err(why) => assert!(started.elapsed() < BOUND, "{why}"),
        }
    };
    let told = streams[0].seek(SOON, tells(&order, "pending")).await.expect("the purchase is told");
    assert_eq!(told.data, buyer.get(&format!("/api/orders/{order}")).await.json);
    buyer.step(&order, "payment").await;
    for events in &mut streams {
        events.seek(SOON, tells(&order, "paid")).await.expect("the payment is told");
    }
    let second = order_id(&buyer.buy("default", item).await);
    for events in &mut streams {
        events.seek(SOON, tells(&second, "pending")).await.expect("the second purchase is told");
    }
    shop.let_holds_pass(301).await;
    for events in &mut streams {
        events.seek(BOUND, tells(&second, "expired")).await.expect("the expiry is told");
    }
    let nothing = of_another.seek(PATIENCE, |_| true).await;
    assert!(nothing.is_err(), "another's order was told: {nothing:?}");
}
