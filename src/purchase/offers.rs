//! The purchase of a unit that is offered to a buyer who waited.
//!
//! The offer takes the place of the gate. Everything else is as for any purchase: the sale's
//! window, the breakers, admission, the key of the request, and the arbiter's transaction, which
//! takes the unit from the offer instead of the stock.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{MOVING, PurchaseRequest, Purchases, hides_an_order};
use gates::{Breaks, Card, Options, Strategy};
use ledger::write::{Arbiter, OrderWrite, StockWrite};
use shop_domain::{Item, ItemId, Outcome, Purchase, Quantity, RequestKey, Span, Trace, UserId};

/// What orders from a waiting list have as their strategy. It is not on the list of strategies, since nobody can
/// choose it.
pub(super) static CARD: Card = Card {
    name: "waiting-list",
    family: "sql",
    store: "mysql",
    safe: true,
    breaks_with: Breaks::Never,
    summary: "Takes the unit that is offered to the buyer.",
    breaks_when: "Never oversells.",
    needs: &[],
    durable_before_reply: true,
    source: "ours",
    takes_options: false,
};

/// The gate of an offered unit.
pub struct AcceptOffer {
    arbiter: Arbiter,
}

impl AcceptOffer {
    /// The gate in front of `arbiter`.
    #[must_use]
    pub fn new(arbiter: Arbiter) -> Self {
        Self { arbiter }
    }
}

#[async_trait]
impl Strategy for AcceptOffer {
    async fn purchase(&self, purchase: Purchase, deadline: Instant) -> Outcome {
        let (stock, deadline) = (StockWrite::Offered, Some(deadline));
        let write = OrderWrite { purchase: &purchase, fence: None, stock, deadline };
        self.arbiter.write(&write).await.unwrap_or_else(Outcome::from)
    }
}

impl Purchases {
    /// Buys the unit that is offered to a buyer, or says why not. The rest is as for
    /// [`Purchases::buy`].
    pub async fn accept_offer(
        &self,
        buyer: UserId,
        item: ItemId,
        key: Option<RequestKey>,
        trace: Trace,
    ) -> Outcome {
        let request = PurchaseRequest {
            buyer,
            item,
            quantity: Quantity::ONE,
            strategy: CARD.name.to_owned(),
            options: Options::default(),
            key,
            ticket: None,
            trace,
        };
        let started = Instant::now();
        let admission = request.trace.span("admission");
        let item = match self.find(&request).await {
            Ok(item) => item,
            Err(outcome) => return outcome,
        };
        let (id, mut found) = (item.id, Arc::clone(&item));
        let mut outcome = self.try_accept(&request, item, (started, admission)).await;
        if outcome == MOVING
            && let Some(moved) = Box::pin(self.find_moved(&request, found.home)).await
        {
            found = Arc::clone(&moved);
            let again = request.trace.span("admission");
            outcome = Box::pin(self.try_accept(&request, moved, (started, again))).await;
        }
        if let Some(key) = &request.key
            && hides_an_order(&outcome)
            && let Some(earlier) = Box::pin(self.earlier(&request, key, &found, &outcome)).await
        {
            outcome = earlier;
        }
        if matches!(outcome, Outcome::Sold(_)) {
            self.parts.metrics.waiting.changed("accepted");
            self.parts.hub.waiting_changed(id, buyer);
        }
        let seconds = started.elapsed().as_secs_f64();
        let ledger = self.parts.ledgers.at(found.home.shard);
        ledger.metrics.purchase_ended(CARD.name, outcome.as_str(), seconds);
        self.parts.outcome_counts.count(id, &outcome);
        outcome
    }

    async fn try_accept(
        &self,
        request: &PurchaseRequest,
        item: Arc<Item>,
        (started, admission): (Instant, Span),
    ) -> Outcome {
        match self.check_sale(request, &item) {
            Ok(amount) => {
                let gate = (&CARD, &self.parts.ledgers.at(item.home.shard).accept_offer);
                self.run(request, item, amount, gate, (started, admission)).await
            }
            Err(outcome) => outcome,
        }
    }
}
