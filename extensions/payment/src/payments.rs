//! Paying an order, and what the provider's messages change.

use std::sync::Arc;

use axum::body::Bytes;
use ledger::order::{PaymentResult, refund};

use crate::message::{Headers, Message, Sender};
use crate::provider::Provider;
use crate::take_error::TakeError;
use crate::verifier::Verifier;
use extension::Core;
use shop_domain::payment::{CurrencyCode, RefundReason};
use shop_domain::{Order, OrderId, OrderStatus, UserId};
use web::problem::Problem;

pub use ledger::order::refund::RefundResult;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageResult {
    /// The order is paid.
    Paid,
    /// The money has to go back.
    RefundWanted(RefundReason),
    /// What the provider says of a refund is noted.
    Refund(RefundResult),
    /// Nothing changed: it was known, or says nothing that matters here.
    Unchanged,
}

/// The payments. Clones share everything.
#[derive(Clone)]
pub struct Payments {
    pub(crate) core: Core,
    /// None in the demo: *Pay* pays, and no money moves.
    pub(crate) provider: Option<Arc<Provider>>,
    verifier: Verifier,
}

impl Payments {
    /// Payments by a provider, if there is one.
    #[must_use]
    pub fn new(core: Core, provider: Option<Arc<Provider>>) -> Self {
        Self { core, provider, verifier: Verifier::new() }
    }

    /// Whether *Pay* pays at once, without a page of the provider.
    #[must_use]
    pub fn are_made_here(&self) -> bool {
        self.provider.is_none()
    }

    /// Pays an order, or says where its buyer pays it. An order that is paid already is answered as
    /// it is, and one that costs nothing is paid here. Returns the order, paid or as it was, and the address of the page
    /// on which the buyer pays, if it is not paid.
    ///
    /// # Errors
    /// Those of the step; nothing changed then.
    pub async fn pay(
        &self,
        id: OrderId,
        owner: UserId,
    ) -> Result<(Order, Option<String>), Problem> {
        let Core { orders, .. } = &self.core;
        let Some(provider) = &self.provider else {
            return Ok((orders.pay(id, owner).await?, None));
        };
        let order = orders.payable(id, owner).await?;
        if order.whole_amount().cents() == 0 {
            // No provider takes a payment of nothing, so the buyer's word is enough.
            return Ok((orders.pay(id, owner).await?, None));
        }
        let is_paid = order.status == OrderStatus::Paid;
        let checkout_url = (!is_paid).then(|| provider.checkout_url(&order));
        Ok((order, checkout_url))
    }

    /// Takes a message of the provider, unless its sender `is_limited`. A repetition has no further effect.
    ///
    /// # Errors
    /// See [`TakeError`]. After an error of the ledger the provider has to send it again.
    pub async fn take(
        &self,
        headers: Headers,
        body: Bytes,
        is_limited: impl Fn() -> bool,
    ) -> Result<MessageResult, TakeError> {
        let Core { ledger, orders, kit, currency, .. } = &self.core;
        let provider = self.provider.as_ref().ok_or(TakeError::Off)?;
        let shop = &CurrencyCode::from(*currency);
        let sender = Sender { secret: &provider.secret, shop };
        match self.verifier.read(sender, headers, body, kit.clock.now(), is_limited).await? {
            Message::Succeeded(received) => Ok(match orders.confirm(&received).await? {
                PaymentResult::Known => MessageResult::Unchanged,
                PaymentResult::Paid(made) => {
                    tracing::info!(payment = %received.id, order = %made.order.id, "order paid");
                    MessageResult::Paid
                }
                PaymentResult::RefundWanted(reason) => MessageResult::RefundWanted(reason),
            }),
            Message::Refunded(received) => {
                Ok(MessageResult::Refund(refund::note_message(ledger, &received).await?))
            }
            Message::Other => Ok(MessageResult::Unchanged),
        }
    }
}
