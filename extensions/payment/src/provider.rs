//! The provider that takes the money.

use outgoing_https::Target;
use serde_json::json;
use time::OffsetDateTime;
use webhooks::{Failure, Message, WebhookClient};

use ledger::rows::payments::Payment;
use shop_domain::Order;
use shop_domain::payment::RefundReason;

/// A provider with a checkout page and signed messages.
pub struct Provider {
    /// The address of the checkout page, with `{order}`, `{amount_cents}` and `{currency}`.
    pub checkout_template: String,
    /// The secret of messages in both directions.
    pub secret: String,
    /// Where refunds are asked for, if it can be done by a message.
    pub refunds: Option<Target>,
    /// Sends them.
    pub client: WebhookClient,
}

impl Provider {
    /// The address of the page on which the buyer pays `order`.
    pub fn checkout_url(&self, order: &Order) -> String {
        self.checkout_template
            .replace("{order}", &order.id.to_string())
            .replace("{amount_cents}", &order.whole_amount().cents().to_string())
            .replace("{currency}", order.currency.as_str())
    }

    /// Tells the provider at `target` that a payment has to go back. It may be told twice.
    pub async fn refund(
        &self,
        target: &Target,
        payment: &Payment,
        now: OffsetDateTime,
    ) -> Result<(), Failure> {
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
        self.client.post(target, &self.secret, &message, &mut None).await
    }
}
