//! Items, and orders of buyers with ids of their own.

use std::sync::{Arc, LazyLock};

use shop_domain::{
    ArbiterMode, Cents, Currency, Item, ItemId, ItemKind, OrderId, Purchase, Quantity, RequestKey,
    SaleWindow, UserId,
};
use time::{Duration, OffsetDateTime};

use crate::events::ID;

pub(crate) const STRATEGY: &str = "mysql-batch";

pub(crate) static ITEMS: LazyLock<[Arc<Item>; 3]> =
    LazyLock::new(|| [1, 2, 3].map(|id| Arc::new(item(id))));

fn item(id: i64) -> Item {
    let now = OffsetDateTime::UNIX_EPOCH;
    let end = now + Duration::days(100_000);
    Item {
        id: ItemId::new(id).expect("positive"),
        name: "thing".to_owned(),
        description: String::new(),
        image_url: None,
        price: Cents::new(100).expect("small"),
        currency: Currency::USD,
        window: SaleWindow::new(now, end).expect("a window"),
        per_buyer_limit: 2,
        unpaid_max: 0,
        hold_seconds: 300,
        strategy: STRATEGY.to_owned(),
        kind: ItemKind::Shop,
        arbiter: ArbiterMode::On,
        paused: false,
        waiting_room: false,
        offer_seconds: 0,
        extend_seconds: 0,
        return_seconds: 0,
        limit_group: None,
        variant: None,
        draw: None,
        has_queue: false,
        revision: 0,
    }
}

/// The lines of order `number`: one of each of these items, by this buyer.
pub(crate) fn order(number: u32, items: &[usize], buyer: u32, key: Option<&str>) -> Vec<Purchase> {
    let id = OrderId::parse(&format!("{ID}{number:08x}0000")).expect("an id");
    let line_count = u8::try_from(items.len()).ok().filter(|lines| *lines > 1);
    let line = |(at, item): (u8, &usize)| Purchase {
        order_id: id.line(at),
        item: Arc::clone(&ITEMS[*item]),
        buyer: UserId::new(i64::from(buyer) + 1).expect("positive"),
        quantity: Quantity::ONE,
        amount: ITEMS[*item].price,
        key: key.and_then(RequestKey::parse).unwrap_or_else(|| RequestKey::of_order(id)),
        strategy: STRATEGY,
        created_at: OffsetDateTime::UNIX_EPOCH,
        expires_at: OffsetDateTime::UNIX_EPOCH,
        trace: Default::default(),
        line_count,
        counts_refusals: true,
    };
    (0_u8..).zip(items).map(line).collect()
}
