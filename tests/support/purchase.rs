//! Purchases as the service hands them to a gate or the arbiter, for tests below the HTTP interface.

use std::sync::Arc;

use ledger::rows::items;
use ledger::write::{Answer, BatchOrders, BatchWriter};
use shop_domain::{Item, ItemId, OrderId, Purchase, Quantity, RequestKey, UserId};
use time::{Duration, OffsetDateTime};
use tokio::time::Instant;

use super::{Client, Instance, Shop, eventually};

/// A purchase of `units` units of the item by buyer 1, whose hold ends in an hour.
pub async fn purchase(
    shop: &Shop,
    item: ItemId,
    units: u32,
    (strategy, key): (&'static str, &str),
) -> Purchase {
    let item = items::find(&shop.pool, item).await.expect("read").expect("an item").item;
    let key = RequestKey::parse(key).expect("a key");
    Purchase { strategy, key, ..purchase_of(&item, 1, units) }
}

/// A purchase by `mysql-batch` without a key of the buyer, whose hold ends in an hour.
pub fn purchase_of(item: &Arc<Item>, buyer: i64, units: u32) -> Purchase {
    let quantity = Quantity::new(units.into()).expect("positive");
    let (order_id, now) = (OrderId::generate(), OffsetDateTime::now_utc());
    Purchase {
        order_id,
        item: Arc::clone(item),
        buyer: UserId::new(buyer).expect("positive"),
        quantity,
        amount: item.price.times(quantity).expect("small"),
        key: RequestKey::of_order(order_id),
        strategy: "mysql-batch",
        trace: Default::default(),
        line_count: None,
        counts_refusals: true,
        created_at: now,
        expires_at: now + Duration::HOUR,
    }
}

/// Writes a batch without a fence, and returns the answers in the sequence of the purchases. No try
/// begins after `deadline`.
pub async fn write_batch(
    batches: &BatchWriter,
    purchases: &[Purchase],
    deadline: Option<Instant>,
) -> Vec<Answer> {
    let mut answers = vec![None; purchases.len()];
    let deadlines = vec![deadline; purchases.len()];
    let orders = BatchOrders { purchases, deadlines: &deadlines };
    let mut tell = |decided: Vec<(usize, Answer)>| {
        for (index, answer) in decided {
            assert!(answers[index].replace(answer).is_none(), "an order is answered twice");
        }
    };
    batches.write(orders, None, &mut tell).await;
    answers.into_iter().map(|answer| answer.expect("each order is answered")).collect()
}

/// Waits until `count` purchases are under way in the instance.
pub async fn until_in_flight(instance: &Instance, count: usize) {
    until_metric(&instance.stranger(), &format!("seckill_purchases_in_flight {count}")).await;
}

/// Sends a purchase, and goes away without its answer once `count` purchases are under way in the instance.
pub async fn send_and_leave<T: Send + 'static>(
    instance: &Instance,
    count: usize,
    purchase: impl Future<Output = T> + Send + 'static,
) {
    let sent = tokio::spawn(purchase);
    until_in_flight(instance, count).await;
    sent.abort();
    assert!(sent.await.is_err(), "the client has its answer");
}

/// Whether the breaker of a server is open in the instance.
pub async fn is_breaker_open(instance: &Instance, dependency: &str) -> bool {
    let metrics = instance.stranger().get("/metrics").await.text;
    metrics.contains(&format!("seckill_breaker_open{{dependency=\"{dependency}\"}} 1\n"))
}

/// Waits until the metrics have this line.
pub async fn until_metric(client: &Client, line: &str) {
    eventually(line, || async {
        client.get("/metrics").await.text.lines().any(|found| found == line).then_some(())
    })
    .await;
}
