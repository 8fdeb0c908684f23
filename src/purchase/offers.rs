//! The purchase of a unit that is offered to a buyer who waited.
//!
//! The offer takes the place of the gate. Everything else is as for any purchase: the sale's
//! window, the breakers, admission, the key of the request, and the arbiter's transaction, which
//! takes the unit from the offer instead of the stock.

use async_trait::async_trait;
use tokio::time::Instant;

use super::find::Source;
use super::{PurchaseRequest, Purchases};
use gates::{Breaks, Card, Options, Strategy};
use ledger::write::{Arbiter, OrderWrite, StockWrite};
use shop_domain::{ItemId, Outcome, Purchase, Quantity, RequestKey, Trace, UserId};

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
        let outcome = self.buy_from(&request, Source::Offer).await;
        if matches!(outcome, Outcome::Sold(_)) {
            self.parts.metrics.waiting.changed("accepted");
            self.parts.hub.waiting_changed(item, buyer);
        }
        outcome
    }
}
