//! One purchase on its way through the gate to the arbiter.

use std::sync::Arc;

use time::OffsetDateTime;

use super::{
    ArbiterMode, Cents, Item, LimitGroup, Order, OrderId, OrderStatus, Quantity, RequestKey, Trace,
    UserId,
};

/// A purchase whose data is complete before a strategy decides about it. The id is made first,
/// so that a retry after an unknown outcome writes the same order or finds it.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// The id that the order will have.
    pub order_id: OrderId,
    pub item: Arc<Item>,
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
    /// The number of lines of the order that this is a line of; `None` for a single purchase.
    pub line_count: Option<u8>,
    /// Whether a refusal by the ledger is counted as one that the gate should have made. Not where the
    /// ledger's batch is the gate.
    pub counts_refusals: bool,
}

impl Purchase {
    /// The group in whose limit the units are counted. Lab items without an arbiter count no buyers.
    #[must_use]
    pub fn counted_group(&self) -> Option<&LimitGroup> {
        self.item.limit_group.as_ref().filter(|_| self.item.arbiter == ArbiterMode::On)
    }

    /// Makes the order of this purchase with the given status.
    #[must_use]
    pub fn order(&self, status: OrderStatus, fence: Option<u64>) -> Order {
        Order {
            id: self.order_id,
            item_id: self.item.id,
            user_id: self.buyer,
            quantity: self.quantity,
            amount: self.amount,
            currency: self.item.currency,
            status,
            strategy: self.strategy.to_owned(),
            fence,
            limit_group: self.counted_group().map(|group| group.id),
            created_at: self.created_at,
            expires_at: self.expires_at,
            extended_seconds: None,
            paid_at: None,
            line_count: self.line_count,
            further: Vec::new(),
        }
    }
}
