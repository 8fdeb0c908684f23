//! Step 4: the strategy decides, and its outcome is published, also when the buyer waits no more.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::Instrument;

use super::admit::PurchasePermit;
use super::earlier::{self, Cover};
use super::find::{Gate, Sale};
use super::finishing::Finishing;
use super::{PurchaseParts, PurchaseRequest, Purchases};
use gates::{Options, Strategy};
use shop_domain::{
    Cents, Doubt, ItemId, OrderId, Outcome, Purchase, Quantity, Refusal, RequestKey, Span,
};

impl Purchases {
    /// Runs the strategy and waits for its outcome until the deadline.
    pub(super) async fn pass_gate(
        &self,
        request: &PurchaseRequest,
        sale: &Sale<'_>,
        gate: Gate<'_>,
        amount: Cents,
        permit: PurchasePermit,
        started: Instant,
    ) -> Outcome {
        let mut span = request.trace.span("gate");
        span.set("strategy", gate.card.name);
        let purchase = self.purchase(request, sale, gate, amount, &span);
        let (parts, strategy) = (Arc::clone(&self.parts), Arc::clone(gate.strategy));
        let (options, deadline) = (request.options, started + self.parts.gate_wait);
        let (card, client) = (gate.card, permit.client());
        let work = async move {
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            let hidden = match Cover::Gate(&purchase, card).may_hide_an_order() {
                true => Box::pin(earlier::find(&parts, &purchase, card)).await,
                false => None,
            };
            let outcome = match hidden {
                Some(outcome) => outcome,
                None => parts.run(&*strategy, purchase, options, deadline).await,
            };
            // Also when the buyer waits no more: the breakers count the outcome.
            permit.ended(&outcome);
            span.set("outcome", outcome.as_str());
            outcome
        };
        let outcome = self.outcome_of(work.instrument(request.trace.log_span()), started).await;
        if let Some(client) = client {
            client.answered();
        }
        outcome
    }

    /// Runs a purchase and waits for its outcome until the deadline. It is finished also when nobody waits
    /// any more.
    pub(super) async fn outcome_of(
        &self,
        work: impl Future<Output = Outcome> + Send + 'static,
        started: Instant,
    ) -> Outcome {
        let work = Finishing::new(work, &self.parts.tasks);
        match tokio::time::timeout_at(started + self.parts.deadline, work).await {
            Ok(Some(outcome)) => outcome,
            // A panic in a strategy: whether its write went through is for the ledger to say.
            Ok(None) => Outcome::Unknown(Doubt::BrokenOff),
            Err(_) => Outcome::Unknown(Doubt::StillRunning),
        }
    }

    pub(super) fn purchase(
        &self,
        request: &PurchaseRequest,
        sale: &Sale<'_>,
        gate: Gate<'_>,
        amount: Cents,
        span: &Span,
    ) -> Purchase {
        let item = Arc::clone(&sale.item);
        let order_id = OrderId::generate();
        // The ledger ends the hold, so it begins by the same clock.
        let created_at = self.parts.clock.ledger_now();
        Purchase {
            order_id,
            buyer: request.buyer,
            quantity: request.quantity,
            amount,
            key: request.key.clone().unwrap_or_else(|| RequestKey::of_order(order_id)),
            strategy: gate.card.name,
            created_at,
            expires_at: created_at + time::Duration::seconds(item.hold_seconds.into()),
            item,
            trace: span.trace(),
            line_count: None,
            counts_refusals: true,
        }
    }
}

impl PurchaseParts {
    /// Runs the strategy, then publishes the outcome.
    async fn run(
        &self,
        strategy: &dyn Strategy,
        purchase: Purchase,
        options: Options,
        deadline: Instant,
    ) -> Outcome {
        let (item, quantity) = (purchase.item.id, purchase.quantity);
        let (bought, buyer) = (Arc::clone(&purchase.item), purchase.buyer);
        let outcome = strategy.purchase_with(purchase, options, deadline).await;
        self.waiting_room.purchase_ended(&bought, buyer, &outcome);
        match &outcome {
            Outcome::Sold(order) | Outcome::Queued(order) => self.hub.order_changed(order),
            Outcome::Refused(refusal) => self.refused(refusal, item, quantity),
            _ => {}
        }
        outcome
    }

    /// Remembers that an item is sold out.
    pub(super) fn refused(&self, refusal: &Refusal, item: ItemId, quantity: Quantity) {
        // Asking for several units may fail while a single one is left.
        if let Refusal::SoldOut { asked_at } = refusal
            && quantity == Quantity::ONE
        {
            self.sold_out.learn(item, *asked_at);
        }
    }
}
