//! The two providers.

use async_trait::async_trait;
use outgoing_https::Target;
use serde_json::json;
use time::OffsetDateTime;
use webhooks::{Failure, Message, WebhookClient};

use ledger::rows::payments::Payment;
use shop_domain::Order;
use shop_domain::payment::RefundReason;

/// Takes the money for orders.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Whether the buyer's *Pay* pays at once, without a checkout page and without messages.
    fn pays_at_once(&self) -> bool {
        false
    }
    /// The address of the page on which the buyer pays `order`.
    fn checkout_url(&self, order: &Order) -> String;
    /// The secret that signs the provider's messages; `None` when it sends none.
    fn secret(&self) -> Option<&str>;
    /// Whether it can be told of refunds.
    fn takes_refunds(&self) -> bool;
    /// Tells the provider that a payment has to go back. It may be told twice.
    async fn refund(&self, payment: &Payment, now: OffsetDateTime) -> Result<(), String>;
}

/// The provider of the demo: *Pay* pays, and no money moves.
pub struct Demo;

/// A provider with a checkout page and signed messages.
pub struct Webhook {
    /// The address of the checkout page, with `{order}`, `{amount_cents}` and `{currency}`.
    pub checkout_template: String,
    /// The secret of messages in both directions.
    pub secret: String,
    /// Where refunds are asked for, if it can be done by a message.
    pub refunds: Option<Target>,
    /// Sends them.
    pub client: WebhookClient,
}

#[async_trait]
impl Provider for Demo {
    fn pays_at_once(&self) -> bool {
        true
    }

    fn checkout_url(&self, _: &Order) -> String {
        String::new()
    }

    fn secret(&self) -> Option<&str> {
        None
    }

    fn takes_refunds(&self) -> bool {
        false
    }

    async fn refund(&self, _: &Payment, _: OffsetDateTime) -> Result<(), String> {
        Err("the demo takes no money".to_owned())
    }
}

#[async_trait]
impl Provider for Webhook {
    fn checkout_url(&self, order: &Order) -> String {
        self.checkout_template
            .replace("{order}", &order.id.to_string())
            .replace("{amount_cents}", &order.whole_amount().cents().to_string())
            .replace("{currency}", order.currency.as_str())
    }

    fn secret(&self) -> Option<&str> {
        Some(&self.secret)
    }

    fn takes_refunds(&self) -> bool {
        self.refunds.is_some()
    }

    async fn refund(&self, payment: &Payment, now: OffsetDateTime) -> Result<(), String> {
        let target = self.refunds.as_ref().ok_or("payment.refund_url is not set")?;
        let body = json!({
            "type": "refund.wanted",
            "payment": payment.id.as_str(),
            "order": payment.order.to_string(),
            "amount_cents": payment.left_cents(),
            "currency": payment.currency.as_str(),
            "reason": payment.reason.map(RefundReason::as_str),
        });
        // One id for all tries, so that the provider knows a repetition.
        let id = format!("refund-{}", payment.id);
        let message = Message { id, body: body.to_string().into(), sent_at: now };
        let sent = self.client.post(target, &self.secret, &message, &mut None).await;
        sent.map_err(|failure| match failure {
            Failure::Away(error) | Failure::Refused(error) => error,
        })
    }
}
