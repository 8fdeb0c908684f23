//! What is said of a purchase before its gate: the item, the strategy, the state of the sale, the ticket.

use std::sync::Arc;

use super::items::Found;
use super::{PurchaseRequest, Purchases, no_ledger};
use gates::{Breaks, Card, Strategy};
use shop_domain::window::Phase;
use shop_domain::{Cents, Home, Item, ItemKind, Outcome, Refusal, Unavailable};

impl Purchases {
    pub(super) async fn find(&self, request: &PurchaseRequest) -> Result<Arc<Item>, Outcome> {
        match self.parts.items.find(request.item).await {
            Ok(Found::Fresh(item)) => Ok(item),
            Ok(Found::Nothing) => Err(Outcome::Refused(Refusal::ItemNotFound)),
            // Nothing comes back while the ledger is away; a key asks for more than that.
            Ok(Found::Earlier { sold_out: true, .. }) if request.key.is_none() => {
                self.parts.metrics.sold_out_from_memory.inc();
                Err(Outcome::Refused(Refusal::SoldOut { asked_at: None }))
            }
            Ok(Found::Earlier { .. }) | Err(_) => Err(no_ledger()),
        }
    }

    /// Finds the strategy, and refuses what can never be sold this way.
    pub(super) fn resolve(
        &self,
        request: &PurchaseRequest,
        item: &Item,
    ) -> Result<(&'static Card, &Arc<dyn Strategy>), Outcome> {
        let default = request.strategy == "default";
        let name = if default { &item.strategy } else { &request.strategy };
        let found = self.parts.ledgers.at(item.home.shard).strategies.find(name);
        let found = found.ok_or(Outcome::Refused(Refusal::StrategyNotFound))?;
        let card = found.card;
        if !request.options.is_default() && !card.takes_options {
            return Err(Outcome::Refused(Refusal::OptionsNotTaken));
        }
        let is_safe = card.breaks_with_options(&request.options) == Breaks::Never;
        if item.kind == ItemKind::Shop && !is_safe {
            return Err(Outcome::Refused(Refusal::UnsafeStrategy));
        }
        if item.kind == ItemKind::Shop && !request.options.fit_shop_items() {
            return Err(Outcome::Refused(Refusal::OptionsForLabItems));
        }
        let unavailable = Outcome::Unavailable(Unavailable::StrategyUnavailable);
        Ok((card, found.strategy.as_ref().ok_or(unavailable)?))
    }

    /// Checks the price and the state of the sale, and answers the price of all units.
    pub(super) fn check_sale(
        &self,
        request: &PurchaseRequest,
        item: &Item,
    ) -> Result<Cents, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let Some(amount) = item.price.times(request.quantity) else {
            return refuse(Refusal::AmountOverflow);
        };
        match item.window.phase(self.parts.clock.now()) {
            Phase::Upcoming => {
                let starts_at = item.window.starts_at();
                refuse(Refusal::SaleNotStarted { starts_at })
            }
            Phase::Ended => refuse(Refusal::SaleEnded),
            Phase::Open if item.paused => refuse(Refusal::SalePaused),
            Phase::Open => Ok(amount),
        }
    }

    /// Checks everything that can be said without the gate, and answers the price of all units.
    pub(super) fn check_eligibility(
        &self,
        request: &PurchaseRequest,
        item: &Item,
    ) -> Result<Cents, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let amount = self.check_sale(request, item)?;
        if item.waiting_room {
            let (ticket, now) = (request.ticket.as_deref(), self.parts.clock.now());
            let admitted = self.parts.waiting_room.admit(ticket, item.id, request.buyer, now);
            admitted.map_err(Outcome::Refused)?;
        }
        if request.quantity.units() > item.per_buyer_limit {
            return refuse(Refusal::QuantityOverLimit { limit: item.per_buyer_limit });
        }
        if self.parts.sold_out.is_known(item.id) {
            self.parts.metrics.sold_out_from_memory.inc();
            return refuse(Refusal::SoldOut { asked_at: None });
        }
        Ok(amount)
    }

    /// Finds the item of a request whose route was out of date; `None` when it is still where it was,
    /// and is only being moved.
    pub(super) async fn find_moved(
        &self,
        request: &PurchaseRequest,
        before: Home,
    ) -> Option<Arc<Item>> {
        self.parts.items.forget(request.item);
        let found = self.find(request).await.ok()?;
        (found.home != before).then_some(found)
    }
}
