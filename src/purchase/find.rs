//! Step 1: the items of a request, through the catalog's cache, and the strategy that decides.

use std::sync::Arc;
use std::time::Duration;

use super::{Lines, NO_LEDGER, OrderRequest, Purchases, Source};
use crate::catalog::{Catalog, CatalogRead, Unreachable};
use gates::{Breaks, Card, Strategy};
use shop_domain::{Item, ItemId, ItemKind, Outcome, Refusal, Unavailable};

/// Greatest age of the number of units left, for the waiting room.
const AVAILABLE_AGE_MAX: Duration = Duration::from_millis(250);

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
        match self.parts.items.find(item).await {
            Ok(ItemRead::Fresh(item)) => Ok(item),
            Ok(ItemRead::Missing) => Err(Outcome::Refused(Refusal::ItemNotFound)),
            // Nothing comes back while the ledger is away; a key asks for more than that.
            Ok(ItemRead::Remembered { sold_out: true }) if order.key.is_none() => {
                self.parts.metrics.sold_out_from_memory.inc();
                Err(Outcome::Refused(Refusal::SoldOut { asked_at: None }))
            }
            Ok(ItemRead::Remembered { .. }) | Err(_) => Err(NO_LEDGER),
        }
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

/// An item as a purchase reads it.
#[derive(Clone, Debug)]
pub(super) enum ItemRead {
    /// The item as it is.
    Fresh(Arc<Item>),
    /// The ledger does not answer now; `sold_out` says whether nothing was left when it last did.
    Remembered { sold_out: bool },
    /// There is no such item.
    Missing,
}

/// The catalog, with the age that an item may have.
#[derive(Clone)]
pub struct Items {
    catalog: Catalog,
    age_max: Duration,
}

impl Items {
    /// Items that are at most `age_max` old.
    #[must_use]
    pub fn new(catalog: Catalog, age_max: Duration) -> Self {
        Self { catalog, age_max }
    }

    /// Units left, at most a quarter of a second ago; 0 of an item that does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not read lately.
    pub async fn available(&self, id: ItemId) -> Result<i64, Unreachable> {
        let seen = self.catalog.find_recent(id, AVAILABLE_AGE_MAX).await?;
        Ok(seen.value.map_or(0, |stocked| stocked.available))
    }

    /// Finds an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not read lately.
    pub(super) async fn find(&self, id: ItemId) -> Result<ItemRead, Unreachable> {
        let CatalogRead { value, age } = self.catalog.find_recent(id, self.age_max).await?;
        Ok(match (value, age) {
            (None, _) => ItemRead::Missing,
            (Some(stocked), None) => ItemRead::Fresh(stocked.item),
            (Some(stocked), Some(_)) => ItemRead::Remembered { sold_out: stocked.available <= 0 },
        })
    }

    /// Reads the item afresh next time.
    pub fn forget(&self, id: ItemId) {
        self.catalog.forget(id);
    }
}
