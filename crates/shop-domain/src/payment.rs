//! Payments of a provider: what may become of money that came.

use std::fmt;

use super::item::word_enum;
use super::{Cents, OrderId, OrderStatus};

/// A provider's id of a payment: 1 to 64 printable ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentId(String);

impl PaymentId {
    /// The longest id, in characters.
    pub const LENGTH_MAX: usize = 64;

    /// Takes an id; `None` for an empty, long or unprintable one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::LENGTH_MAX).contains(&text.len());
        let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && is_printable).then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A currency by its code, such as `USD`: 1 to 16 letters and digits, in upper case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency(String);

impl Currency {
    /// The longest code, in characters. ISO 4217 has three letters; a provider may have codes of its own.
    pub const LENGTH_MAX: usize = 16;

    /// Takes a code in upper or lower case; `None` for an empty or long one, and for other characters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::LENGTH_MAX).contains(&text.len());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (fits && is_plain).then(|| Self(text.to_ascii_uppercase()))
    }

    /// The code.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

word_enum! {
    /// The status of a payment.
    PaymentStatus {
        /// The money has paid its order.
        Accepted = "accepted",
        /// The money has to go back, and the provider is to be told.
        RefundWanted = "refund_wanted",
        /// The money has to go back, and the provider was told.
        RefundRequested = "refund_requested",
        /// All of the money went back.
        Refunded = "refunded",
    }
}

word_enum! {
    /// The reason why a payment has to go back.
    RefundReason {
        /// There is no such order.
        UnknownOrder = "unknown_order",
        /// The amount is not that of the order.
        WrongAmount = "wrong_amount",
        /// The currency is not that of the shop.
        WrongCurrency = "wrong_currency",
        /// Another payment has paid the order.
        PaidTwice = "paid_twice",
        /// The order is cancelled.
        Cancelled = "cancelled",
        /// The order was refused after it was queued.
        Rejected = "rejected",
        /// The hold was over, and the units are sold.
        SoldOut = "sold_out",
        /// The hold was over, and the buyer has the limit with other orders.
        LimitReached = "limit_reached",
        /// The buyer has given the paid order back.
        Returned = "returned",
    }
}

/// Money that a provider has received for an order.
#[derive(Clone, Debug)]
pub struct ReceivedPayment {
    /// The id of the provider's message.
    pub message: String,
    /// The payment.
    pub id: PaymentId,
    pub order: OrderId,
    pub amount: Cents,
    /// The currency, if it is not the shop's.
    pub foreign_currency: Option<Currency>,
}

impl RefundReason {
    /// The reason why a payment cannot pay an order with this status and amount; `None` when it can,
    /// as far as these tell.
    #[must_use]
    pub fn of(status: OrderStatus, due: Cents, received: &ReceivedPayment) -> Option<Self> {
        match status {
            OrderStatus::Cancelled => Some(Self::Cancelled),
            OrderStatus::Rejected => Some(Self::Rejected),
            OrderStatus::Paid => Some(Self::PaidTwice),
            _ if received.foreign_currency.is_some() => Some(Self::WrongCurrency),
            _ if due != received.amount => Some(Self::WrongAmount),
            OrderStatus::Queued | OrderStatus::Pending | OrderStatus::Expired => None,
        }
    }
}
