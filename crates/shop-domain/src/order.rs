//! An order, the purchase that it begins as, and the states it goes through.
//!
//! ```text
//!             purchase                 payment
//!   (queued) ──────────▶ pending ──────────────────▶ paid
//!       │                  │  │ hold runs out          ▲
//!       │                  │  └──────────▶ expired ────┘ late payment, while stock is left
//!       ▼                  ▼
//!    rejected          cancelled ◀─ paid, where the sale takes paid orders back
//! ```
//!
//! Invariants, kept by `arbiter` and `order` in one transaction each:
//! 1. `queued` and `rejected` hold no stock; `pending` and `paid` hold their quantity.
//! 2. Each arrow that takes or gives stock writes exactly one movement, keyed by order and
//!    reason, so that no transition happens twice.
//! 3. `cancelled` and `rejected` are final; `expired` is final but for the late payment, and `paid` is final but
//!    for the return.

use std::sync::Arc;

use time::OffsetDateTime;

use super::item::word_enum;
use super::{
    ArbiterMode, Cents, Currency, Item, ItemId, LimitGroup, LimitGroupId, OrderId, Quantity,
    RequestKey, Trace, UserId,
};

/// The most lines that an order may have.
pub const LINES_MAX: u8 = 16;

/// An order as its owner sees it, or one line of it: an order of several items is a row for each line, and its
/// first line has its id. All lines have one buyer, key, status and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    pub item_id: ItemId,
    pub user_id: UserId,
    pub quantity: Quantity,
    /// The price of all units at the time of the order.
    pub amount: Cents,
    /// The currency of the item, and of all lines.
    pub currency: Currency,
    pub status: OrderStatus,
    /// The strategy that accepted it.
    pub strategy: String,
    /// The fence of the lock under which it was written, if there was one.
    pub fence: Option<u64>,
    /// The group in whose limit its units are counted, if the item was in one.
    pub limit_group: Option<LimitGroupId>,
    pub created_at: OffsetDateTime,
    /// The end of its hold.
    pub expires_at: OffsetDateTime,
    /// By how many seconds its hold was extended, if it was.
    pub extended_seconds: Option<u32>,
    pub paid_at: Option<OffsetDateTime>,
    /// The number of its lines; `None` for a single purchase.
    pub line_count: Option<u8>,
    /// The lines behind this one, when the whole order was read.
    pub further: Vec<Self>,
}

#[cfg(feature = "sqlx")]
crate::from_row!(Order {
    id,
    item_id,
    user_id,
    quantity,
    amount: "amount_cents",
    currency = "(SELECT items.currency FROM items WHERE items.id = orders.item_id)",
    status,
    strategy,
    fence,
    limit_group: "limit_group_id",
    created_at,
    expires_at,
    extended_seconds,
    paid_at,
    line_count;
    // The other lines have rows of their own.
    further = Vec::new(),
});

impl AsMut<Self> for Order {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Order {
    /// Makes one order of its lines; `None` without a line.
    pub fn of_lines(mut lines: Vec<Self>) -> Option<Self> {
        lines.sort_unstable_by_key(|line| line.id);
        let mut lines = lines.into_iter();
        let first = lines.next()?;
        Some(Self { further: lines.collect(), ..first })
    }

    /// All lines; a single purchase is its only line.
    pub fn lines(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.further)
    }

    /// Changes all lines in the same way.
    pub fn change_lines(&mut self, change: impl Fn(&mut Self)) {
        change(self);
        self.further.iter_mut().for_each(change);
    }

    /// The price of all lines.
    pub fn whole_amount(&self) -> Cents {
        Cents::sum(self.lines().map(|line| line.amount))
    }

    /// The id of the order that this is a line of.
    pub fn whole_id(&self) -> OrderId {
        if self.line_count.is_some() { self.id.line(0) } else { self.id }
    }

    /// Whether this is a line behind the first of its order, and therefore no order.
    pub fn is_further_line(&self) -> bool {
        self.line_count.is_some() && self.id.line_number() > 0
    }

    /// The ids of the lines behind the first.
    pub fn further_ids(&self) -> impl Iterator<Item = OrderId> + use<> {
        let id = self.id;
        (1..self.line_count.unwrap_or(1)).map(move |number| id.line(number))
    }
}

/// A purchase whose data is complete before a strategy decides about it. The id is made first,
/// so that a retry after an unknown outcome writes the same order or finds it.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// The id that the order will have.
    pub order_id: OrderId,
    pub item: Arc<Item>,
    pub buyer: UserId,
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
    pub fn counted_group(&self) -> Option<&LimitGroup> {
        self.item.limit_group.as_ref().filter(|_| self.item.arbiter == ArbiterMode::On)
    }

    /// Makes the order of this purchase with the given status.
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

word_enum! {
    /// The status of an order; see the module's picture.
    OrderStatus {
        /// Accepted by a gate that answers before the order is durable.
        Queued = "queued",
        /// In the ledger, unpaid, holding its stock.
        Pending = "pending",
        Paid = "paid",
        /// Given back by its owner.
        Cancelled = "cancelled",
        /// Given back because its hold ran out.
        Expired = "expired",
        /// Queued, and then refused by the ledger.
        Rejected = "rejected",
    }
}

word_enum! {
    /// The reason of a stock movement; with the order's id it is the movement's key.
    MovementReason {
        /// An order took units.
        Sold = "sold",
        /// A cancelled order gave them back.
        Cancelled = "cancelled",
        /// An expired order gave them back.
        Expired = "expired",
        /// A payment after the expiry took them again.
        LatePayment = "late_payment",
    }
}

/// A step of an order after it was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The owner pays.
    Pay,
    /// The owner cancels.
    Cancel,
    /// The owner extends the hold by these seconds, or by as many as the items allow.
    Extend(Option<u32>),
    /// The owner gives the paid order back.
    Return,
}

/// The effect of a [`Step`] on an order in a given state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The order has the state already: answer it unchanged.
    Already,
    /// The order gets the state; stock does not change.
    To(OrderStatus),
    /// The order gets the state, and its units return to the stock, for the reason.
    GiveBack(OrderStatus, MovementReason),
    /// The order gets the state if its units can be taken from the stock again, for the reason.
    TakeAgain(OrderStatus, MovementReason),
    /// The hold may become longer by these seconds, or by as many as the items allow; the state stays.
    Extend(Option<u32>),
    /// The state does not allow it.
    Conflict,
}

impl Transition {
    /// Whether the step moves units between the order and the stock.
    pub fn moves_stock(self) -> bool {
        matches!(self, Self::GiveBack(..) | Self::TakeAgain(..))
    }
}

impl OrderStatus {
    /// The table of transitions: what `step` does in this state. The expiry has its condition in its SQL.
    ///
    /// A payment that comes after the hold ran out but before the sweep noticed is in time: the
    /// stock is still held.
    pub fn step(self, step: Step) -> Transition {
        use OrderStatus::{Cancelled, Expired, Paid, Pending, Queued, Rejected};
        match (self, step) {
            (Pending, Step::Pay) => Transition::To(Paid),
            (Expired, Step::Pay) => Transition::TakeAgain(Paid, MovementReason::LatePayment),
            (Pending, Step::Cancel) => Transition::GiveBack(Cancelled, MovementReason::Cancelled),
            (Pending, Step::Extend(seconds)) => Transition::Extend(seconds),
            (Paid, Step::Return) => Transition::GiveBack(Cancelled, MovementReason::Cancelled),
            (Paid, Step::Pay) | (Cancelled, Step::Cancel | Step::Return) => Transition::Already,
            (Queued | Rejected | Cancelled, Step::Pay)
            | (Queued | Rejected | Paid | Expired, Step::Cancel | Step::Extend(_))
            | (Cancelled, Step::Extend(_))
            | (Queued | Rejected | Pending | Expired, Step::Return) => Transition::Conflict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 4] = [Step::Pay, Step::Cancel, Step::Extend(None), Step::Return];

    impl OrderStatus {
        fn holds_stock(self) -> bool {
            matches!(self, Self::Pending | Self::Paid)
        }
    }

    #[test]
    fn stock_moves_exactly_when_a_state_begins_or_stops_to_hold_it() {
        for &from in OrderStatus::ALL {
            for step in STEPS {
                match from.step(step) {
                    Transition::To(to) => assert_eq!(from.holds_stock(), to.holds_stock()),
                    Transition::GiveBack(to, _) => {
                        assert!(from.holds_stock() && !to.holds_stock(), "{from:?} {step:?}");
                    }
                    Transition::TakeAgain(to, _) => {
                        assert!(!from.holds_stock() && to.holds_stock(), "{from:?} {step:?}");
                    }
                    Transition::Extend(_) => assert!(from.holds_stock()),
                    Transition::Already | Transition::Conflict => {}
                }
            }
        }
    }

    #[test]
    fn final_states_stay() {
        for last in [OrderStatus::Paid, OrderStatus::Cancelled, OrderStatus::Rejected] {
            for step in STEPS {
                let is_return = (last, step) == (OrderStatus::Paid, Step::Return);
                let stays = matches!(last.step(step), Transition::Already | Transition::Conflict);
                assert_eq!(stays, !is_return, "{last:?} {step:?}");
            }
        }
    }

    #[test]
    fn words_read_back() {
        for &status in OrderStatus::ALL {
            assert_eq!(OrderStatus::parse(status.as_str()), Some(status));
        }
    }
}
