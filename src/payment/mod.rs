//! Payments: who takes the money for an order, and how the service learns of it.
//!
//! A [`Provider`] is one of two. `demo` records "paid" when the buyer presses *Pay*. `webhook`
//! sends the buyer to a checkout page, and its signed messages report each payment. The messages
//! may come late, twice, or in any order; each payment is taken once, or has to go back.

mod message;
mod provider;
mod refunds;
mod verifier;

use std::sync::Arc;

use axum::body::Bytes;

use crate::order::{FindError, Orders, PaymentResult, StepError};
use ledger::Ledger;
use shop_domain::order::Step;
use shop_domain::payment::{CurrencyCode, RefundReason};
use shop_domain::{Clock, LedgerError, Order, OrderId, OrderStatus, UserId};

pub use ledger::order::refund::ByHand;
pub use ledger::rows::payments::Payment;
pub use message::{Headers, Message, MessageError};
pub use provider::{Demo, Provider, Webhook};
pub use refunds::RefundRun;
use verifier::Verifier;

/// The reason why a payment is not possible.
#[derive(Debug, thiserror::Error)]
pub enum PayError {
    /// The step of the order failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The order could not be read.
    #[error(transparent)]
    Find(#[from] FindError),
}

/// The reason why a message of the provider is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// No provider sends messages.
    #[error("the provider sends no messages")]
    Off,
    /// The message is forged, too old, or cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Other messages are verified; this one was not.
    #[error("too many long messages are verified at once")]
    Busy,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl TakeError {
    /// Whether the message counts against the limit of its sender's address: it has cost a
    /// verification, and is not known to be genuine.
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::Busy | Self::Message(MessageError::Forged))
    }
}

/// An order on its way to be paid.
#[derive(Clone, Debug)]
pub struct Payable {
    /// The order: paid, or as it was.
    pub order: Order,
    /// Where the buyer pays, if not here.
    pub checkout_url: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageResult {
    /// The order is paid.
    Paid,
    /// The money has to go back.
    RefundWanted(RefundReason),
    /// All of the money went back.
    Refunded,
    /// A part of the money went back.
    PartlyRefunded,
    /// Nothing changed: it was known, or says nothing that matters here.
    Unchanged,
}

/// The parts of [`Payments`].
#[derive(Clone)]
pub struct PaymentParts {
    pub ledger: Ledger,
    pub orders: Orders,
    pub provider: Arc<dyn Provider>,
    pub clock: Clock,
    /// The currency of messages that name none.
    pub currency: CurrencyCode,
}

/// The payments. Clones share everything.
#[derive(Clone)]
pub struct Payments {
    parts: PaymentParts,
    verifier: Verifier,
}

impl Payments {
    /// Payments of the parts.
    #[must_use]
    pub fn new(parts: PaymentParts) -> Self {
        Self { parts, verifier: Verifier::new() }
    }

    /// Whether *Pay* pays at once, without a page of the provider.
    #[must_use]
    pub fn are_made_here(&self) -> bool {
        self.parts.provider.pays_at_once()
    }

    /// Pays an order, or says where its buyer pays it. An order that is paid already is answered as
    /// it is.
    ///
    /// # Errors
    /// See [`PayError`]; nothing changed then.
    pub async fn pay(&self, id: OrderId, owner: UserId) -> Result<Payable, PayError> {
        let PaymentParts { orders, provider, .. } = &self.parts;
        if provider.pays_at_once() {
            let order = orders.step(id, owner, Step::Pay).await?;
            return Ok(Payable { order, checkout_url: None });
        }
        let order = orders.find(id, owner).await?.ok_or(StepError::NotFound)?;
        match order.status {
            OrderStatus::Paid => Ok(Payable { order, checkout_url: None }),
            OrderStatus::Pending | OrderStatus::Expired => {
                let checkout_url = Some(provider.checkout_url(&order));
                Ok(Payable { order, checkout_url })
            }
            _ => Err(StepError::Conflict(Box::new(order)).into()),
        }
    }

    /// Takes a message of the provider. A repetition has no further effect.
    ///
    /// # Errors
    /// See [`TakeError`]. After an error of the ledger the provider has to send it again.
    pub async fn take(&self, headers: Headers, body: Bytes) -> Result<MessageResult, TakeError> {
        let PaymentParts { orders, provider, clock, currency, .. } = &self.parts;
        let keys = (provider.secret().ok_or(TakeError::Off)?, currency);
        match self.verifier.read(keys, headers, body, clock.now()).await? {
            Message::Succeeded(received) => Ok(match orders.confirm(&received).await? {
                PaymentResult::Known => MessageResult::Unchanged,
                PaymentResult::Paid(made) => {
                    tracing::info!(payment = %received.id, order = %made.order.id, "order paid");
                    MessageResult::Paid
                }
                PaymentResult::RefundWanted(reason) => MessageResult::RefundWanted(reason),
            }),
            Message::Refunded(received) => Ok(self.take_refund(&received).await?),
            Message::Other => Ok(MessageResult::Unchanged),
        }
    }
}
