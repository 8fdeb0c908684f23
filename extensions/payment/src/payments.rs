//! Paying an order, and what the provider's messages change.

use std::sync::Arc;

use axum::body::Bytes;
use ledger::order::PaymentResult;
use ledger::order::refund::{self, RefundResult};

use crate::message::{Headers, Message, Sender};
use crate::provider::Provider;
use crate::take_error::TakeError;
use crate::verifier::Verifier;
use extension::Core;
use shop_domain::payment::{CurrencyCode, RefundReason};
use shop_domain::{Order, OrderId, OrderStatus, UserId};
use web::problem::Problem;

/// What became of a message in the word of the API, and why the money has to go back.
pub type MessageResult = (&'static str, Option<RefundReason>);
/// The message was known, or says nothing that matters here.
const UNCHANGED: MessageResult = ("unchanged", None);

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
    pub fn new(core: Core, provider: Option<Arc<Provider>>) -> Self {
        Self { core, provider, verifier: Verifier::new() }
    }

    /// Whether *Pay* pays at once, without a page of the provider.
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
                PaymentResult::Known => UNCHANGED,
                PaymentResult::Paid(made) => {
                    tracing::info!(payment = %received.id, order = %made.order.id, "order paid");
                    ("paid", None)
                }
                PaymentResult::RefundWanted(reason) => ("refund_wanted", Some(reason)),
            }),
            Message::Refunded(received) => {
                Ok(match refund::note_message(ledger, &received).await? {
                    RefundResult::Refunded => ("refunded", None),
                    RefundResult::PartlyRefunded => ("partly_refunded", None),
                    RefundResult::Unchanged => UNCHANGED,
                })
            }
            Message::Other => Ok(UNCHANGED),
        }
    }
}
