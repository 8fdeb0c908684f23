//! Payments of a provider: what may become of money that came.

use std::fmt;

use super::id::is_plain;
use super::item::word_enum;
use super::{Cents, Currency, Order, OrderId, OrderStatus};

/// A provider's id of a payment: 1 to 255 printable ASCII characters, as many as Stripe promises to need at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentId(String);

impl PaymentId {
    /// The longest id, in characters.
    pub const LENGTH_MAX: usize = 255;

    /// Takes an id; `None` for an empty, long or unprintable one.
    pub fn parse(text: &str) -> Option<Self> {
        is_plain(text, Self::LENGTH_MAX).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The currency that a provider names, such as `USD`: 1 to 16 letters and digits, in upper case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrencyCode(String);

impl From<Currency> for CurrencyCode {
    fn from(currency: Currency) -> Self {
        Self(currency.as_str().to_owned())
    }
}

impl CurrencyCode {
    /// The longest code, in characters. ISO 4217 has three letters; a provider may have codes of its own.
    pub const LENGTH_MAX: usize = 16;

    /// Takes a code in upper or lower case; `None` for an empty or long one, and for other characters.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=Self::LENGTH_MAX).contains(&text.len());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (fits && is_plain).then(|| Self(text.to_ascii_uppercase()))
    }

    /// The code.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

word_enum! {
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
        /// The currency is not that of the order.
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
    pub id: PaymentId,
    pub order: OrderId,
    pub amount: Cents,
    pub currency: CurrencyCode,
    /// The provider's id of the refund, if the message is about one and names it.
    pub refund: Option<PaymentId>,
}

impl RefundReason {
    /// The reason why a payment cannot pay an order; `None` when it can, as far as status and amount tell.
    pub fn of(order: &Order, received: &ReceivedPayment) -> Option<Self> {
        match order.status {
            OrderStatus::Cancelled => Some(Self::Cancelled),
            OrderStatus::Rejected => Some(Self::Rejected),
            OrderStatus::Paid => Some(Self::PaidTwice),
            _ if received.currency.as_str() != order.currency.as_str() => Some(Self::WrongCurrency),
            _ if order.whole_amount() != received.amount => Some(Self::WrongAmount),
            OrderStatus::Queued | OrderStatus::Pending | OrderStatus::Expired => None,
        }
    }
}
