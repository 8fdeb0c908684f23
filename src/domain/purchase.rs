//! One purchase on its way through the gate to the arbiter.

use std::sync::Arc;

use time::OffsetDateTime;

use super::{Cents, Item, Order, OrderId, OrderStatus, Quantity, RequestKey, Trace, UserId};

/// A purchase whose data is complete before a strategy decides about it. The id is made first,
/// so that a retry after an unknown outcome writes the same order or finds it.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// The id that the order will have.
    pub order_id: OrderId,
    /// The item.
    pub item: Arc<Item>,
    /// The buyer.
    pub buyer: UserId,
    /// The number of units.
    pub quantity: Quantity,
    /// The price of all units.
    pub amount: Cents,
    /// The request's key, by which a retry is recognized.
    pub key: RequestKey,
    /// The name of the strategy.
    pub strategy: &'static str,
    /// The time of the purchase, by the database's clock.
    pub created_at: OffsetDateTime,
    /// The end of its hold, by the database's clock.
    pub expires_at: OffsetDateTime,
    /// Where its steps write their spans.
    pub trace: Trace,
}

impl Purchase {
    /// Makes the order of this purchase with the given status.
    #[must_use]
    pub fn order(&self, status: OrderStatus, fence: Option<u64>) -> Order {
        Order {
            id: self.order_id,
            item_id: self.item.id,
            user_id: self.buyer,
            quantity: self.quantity,
            amount: self.amount,
            status,
            strategy: self.strategy.to_owned(),
            fence,
            created_at: self.created_at,
            expires_at: self.expires_at,
            paid_at: None,
        }
    }
}
