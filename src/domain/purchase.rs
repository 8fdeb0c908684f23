//! One purchase on its way through the gate to the arbiter.

use std::sync::Arc;

use time::OffsetDateTime;

use super::{Cents, Item, Order, OrderId, OrderStatus, Quantity, RequestKey, UserId};

/// Everything that is decided about a purchase before a strategy judges it. The id is made first,
/// so that a retry after an unknown outcome writes the same order or finds it.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// The id that the order will have.
    pub order_id: OrderId,
    /// What is bought.
    pub item: Arc<Item>,
    /// Who buys.
    pub buyer: UserId,
    /// How many units.
    pub quantity: Quantity,
    /// The price of all units.
    pub amount: Cents,
    /// What makes a retry the same request.
    pub key: RequestKey,
    /// The name of the strategy.
    pub strategy: &'static str,
    /// When it was judged, by the database's clock.
    pub created_at: OffsetDateTime,
    /// When its hold runs out, by the database's clock.
    pub expires_at: OffsetDateTime,
}

impl Purchase {
    /// The order that this purchase becomes, in state `status`.
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
