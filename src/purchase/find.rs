//! Step 1: the items of a request, through the catalog's cache, and the strategy that decides.

use std::sync::Arc;

use super::{Lines, NO_LEDGER, OrderRequest, Purchases, Source};
use gates::{Breaks, Card, Strategy};
use shop_domain::{Item, ItemId, ItemKind, Outcome, Refusal, Unavailable};

/// A strategy with its description.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) card: &'static Card,
    pub(super) strategy: &'a Arc<dyn Strategy>,
}

impl Purchases {
    /// Finds the item of each line.
    pub(super) async fn find(&self, order: &OrderRequest) -> Result<Lines<Arc<Item>>, Outcome> {
        let mut items: Lines<Arc<Item>> = Lines::new();
        for line in &order.lines {
            let found = self.find_item(order, line.item).await;
            let item = found.map_err(|no| order.of_line(no, line.item))?;
            if items.iter().any(|other| other.currency != item.currency) {
                let refused = Outcome::Refused(Refusal::OtherCurrency);
                return Err(order.of_line(refused, item.id));
            }
            items.push(item);
        }
        Ok(items)
    }

    async fn find_item(&self, order: &OrderRequest, item: ItemId) -> Result<Arc<Item>, Outcome> {
        let read = self.parts.catalog.find_recent(item, self.parts.item_age_max).await;
        let read = read.map_err(|_| NO_LEDGER)?;
        let stocked = read.value.ok_or(Outcome::Refused(Refusal::ItemNotFound))?;
        if read.age.is_none() {
            return Ok(stocked.item);
        }
        // The ledger does not answer now. Nothing comes back meanwhile; a key asks for more than that.
        if stocked.available > 0 || order.key.is_some() {
            return Err(NO_LEDGER);
        }
        self.parts.metrics.sold_out_from_memory.inc();
        Err(Outcome::Refused(Refusal::SoldOut { asked_at: None }))
    }

    /// Finds the strategy, and refuses what can never be sold this way. Only an order of one line can name
    /// another strategy than `mysql-batch`, so its first item stands for all.
    pub(super) fn gate_of(&self, order: &OrderRequest, item: &Item) -> Result<Gate<'_>, Outcome> {
        let refuse = |refusal| Err(Outcome::Refused(refusal));
        let strategies = &self.parts.strategies;
        let found = match &order.source {
            Source::Offer => Some(strategies.offers()),
            Source::Reservation => strategies.find("mysql-batch"),
            Source::Stock { strategy, .. } if strategy == "default" => {
                strategies.find(&item.strategy)
            }
            Source::Stock { strategy, .. } => strategies.find(strategy),
        };
        let Some(found) = found else { return refuse(Refusal::StrategyNotFound) };
        let card = found.card;
        let options = order.options();
        if !options.is_default() && !card.takes_options {
            return refuse(Refusal::OptionsNotTaken);
        }
        if item.kind == ItemKind::Shop && card.breaks_with_options(&options) != Breaks::Never {
            return refuse(Refusal::UnsafeStrategy);
        }
        if item.kind == ItemKind::Shop && !options.fit_shop_items() {
            return refuse(Refusal::OptionsForLabItems);
        }
        let unavailable = Outcome::Unavailable(Unavailable::StrategyUnavailable);
        Ok(Gate { card, strategy: found.strategy.as_ref().ok_or(unavailable)? })
    }
}
