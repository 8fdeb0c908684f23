//! A queued order: all data that the arbiter needs, in JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use shop_domain::{
    Cents, Currency, Item, ItemId, Order, OrderId, OrderStatus, Purchase, Quantity, RequestKey,
    Trace, UserId,
};

/// A purchase that a gate has accepted, queued for the arbiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intention {
    /// The id of the order.
    pub order: OrderId,
    pub buyer: UserId,
    /// The number of units, which are taken from the counter already.
    pub quantity: Quantity,
    /// The price of all units.
    pub amount: Cents,
    /// The request's key, by which a retry is recognized.
    pub key: RequestKey,
    /// The time of the gate's decision.
    pub created_at: OffsetDateTime,
    /// The end of its hold.
    pub expires_at: OffsetDateTime,
}

/// An [`Intention`] as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    order: String,
    buyer: i64,
    units: u32,
    amount_cents: i64,
    /// Missing when the request cannot be sent again: then the key is the order's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

impl Intention {
    /// Makes the queued form of a purchase.
    pub fn of(purchase: &Purchase) -> Self {
        Self {
            order: purchase.order_id,
            buyer: purchase.buyer,
            quantity: purchase.quantity,
            amount: purchase.amount,
            key: purchase.key.clone(),
            created_at: purchase.created_at,
            expires_at: purchase.expires_at,
        }
    }

    /// The JSON text for the queue.
    pub fn write(&self) -> String {
        let key = self.key.is_from_caller().then(|| self.key.as_str().to_owned());
        let written = Written {
            order: self.order.to_string(),
            buyer: self.buyer.get(),
            units: self.quantity.units(),
            amount_cents: self.amount.cents(),
            key,
            created_at: self.created_at,
            expires_at: self.expires_at,
        };
        serde_json::to_string(&written).expect("plain fields become JSON")
    }

    /// Parses the JSON text; `None` for a text that this program does not write.
    pub fn read(text: &str) -> Option<Self> {
        let written: Written = serde_json::from_str(text).ok()?;
        let order = OrderId::parse(&written.order)?;
        Some(Self {
            order,
            buyer: UserId::new(written.buyer)?,
            quantity: Quantity::new(written.units.into())?,
            amount: Cents::new(written.amount_cents)?,
            key: match &written.key {
                Some(key) => RequestKey::parse(key)?,
                None => RequestKey::of_order(order),
            },
            created_at: written.created_at,
            expires_at: written.expires_at,
        })
    }

    /// The order as its owner sees it while it is queued.
    pub fn order(&self, item: (ItemId, Currency), strategy: &str) -> Order {
        let (item, currency) = item;
        Order {
            id: self.order,
            item_id: item,
            user_id: self.buyer,
            quantity: self.quantity,
            amount: self.amount,
            currency,
            status: OrderStatus::Queued,
            strategy: strategy.to_owned(),
            fence: None,
            limit_group: None,
            created_at: self.created_at,
            expires_at: self.expires_at,
            extended_seconds: None,
            paid_at: None,
            line_count: None,
            further: Vec::new(),
        }
    }

    /// The purchase for the arbiter.
    pub fn purchase(self, item: Arc<Item>, strategy: &'static str) -> Purchase {
        Purchase {
            order_id: self.order,
            item,
            buyer: self.buyer,
            quantity: self.quantity,
            amount: self.amount,
            key: self.key,
            strategy,
            created_at: self.created_at,
            expires_at: self.expires_at,
            trace: Trace::default(),
            line_count: None,
            counts_refusals: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_reads_back_and_nothing_else_is_read() {
        let now = shop_domain::Clock::default().now();
        let order = OrderId::generate();
        let mut intention = Intention {
            order,
            buyer: UserId::new(7).expect("positive"),
            quantity: Quantity::new(3).expect("positive"),
            amount: Cents::new(750).expect("a price"),
            key: RequestKey::parse("a key\"s".replace(' ', "-").as_str()).expect("a key"),
            created_at: now,
            expires_at: now + time::Duration::MINUTE,
        };
        assert_eq!(Intention::read(&intention.write()), Some(intention.clone()));
        intention.key = RequestKey::of_order(order);
        let read = Intention::read(&intention.write()).expect("well formed");
        assert_eq!(read, intention);
        assert!(!read.key.is_from_caller());
        let text = intention.write();
        for bad in ["", "{}", "[]", &text.replace("units\":3", "units\":0"), &text[1..]] {
            assert_eq!(Intention::read(bad), None, "{bad}");
        }
    }
}
