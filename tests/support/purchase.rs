//! Purchases as the service hands them to a gate or the arbiter, for tests below the HTTP interface.

use seckill::domain::{ItemId, OrderId, Purchase, Quantity, RequestKey, UserId};
use seckill::store::mysql::items;
use time::{Duration, OffsetDateTime};

use super::{Instance, Shop, eventually};

/// A purchase of `units` units of the item by buyer 1, whose hold ends in an hour.
pub async fn purchase(
    shop: &Shop,
    item: ItemId,
    units: u32,
    (strategy, key): (&'static str, &str),
) -> Purchase {
    let item = items::find(&shop.pool, item).await.expect("read").expect("an item").item;
    let quantity = Quantity::new(units.into()).expect("positive");
    let now = OffsetDateTime::now_utc();
    Purchase {
        order_id: OrderId::generate(),
        amount: item.price.times(quantity).expect("small"),
        item,
        buyer: UserId::new(1).expect("positive"),
        quantity,
        key: RequestKey::parse(key).expect("a key"),
        strategy,
        trace: Default::default(),
        look: Default::default(),
        created_at: now,
        expires_at: now + Duration::HOUR,
    }
}

/// Waits until `count` purchases are under way in the instance.
pub async fn until_in_flight(instance: &Instance, count: usize) {
    let line = format!("seckill_purchases_in_flight {count}\n");
    eventually("the purchases to be under way", || async {
        instance.stranger().get("/metrics").await.text.contains(&line).then_some(())
    })
    .await;
}
