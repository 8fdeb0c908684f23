//! Sales that are tried out: the port of the extension `lab` to the catalog and the purchases.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use extension::ports::{self, TrialPurchase};
use ledger::catalog::NewItems;
use ledger::rows::actions::Actor;
use shop_domain::{Item, ItemEdit, ItemId, LedgerError, NewItem, Outcome, Trace};
use time::OffsetDateTime;

use crate::catalog::Catalog;
use crate::purchase::{LineRequest, OrderRequest, Purchases, Source};

/// Trial sales, in the catalog and on the purchase path of the shop.
pub struct TrialSales {
    pub catalog: Catalog,
    pub purchases: Purchases,
    /// How old a "sold out" may be (`purchase/sold_out.rs`).
    pub sold_out_age: Duration,
}

#[async_trait]
impl ports::TrialSales for TrialSales {
    async fn create(&self, new: &NewItem, now: OffsetDateTime) -> Result<Arc<Item>, String> {
        let items = std::slice::from_ref(new);
        let new = NewItems { items, now, actor: None, first_id: None, request: None };
        let made = self.catalog.create(new).await.map_err(|error| error.to_string())?;
        let made = made.items.into_iter().next();
        made.map(|made| made.item).ok_or_else(|| LedgerError::OutcomeUnknown.to_string())
    }

    async fn edit(&self, item: ItemId, edit: &ItemEdit, actor: &Actor) -> Result<(), String> {
        let edited = self.catalog.edit(item, edit, actor).await;
        edited.map_err(|error| error.to_string())?;
        self.purchases.item_changed(item);
        Ok(())
    }

    async fn buy(&self, purchase: TrialPurchase) -> Outcome {
        let line = LineRequest { item: purchase.item, quantity: purchase.quantity, ticket: None };
        let strategy = purchase.strategy.to_owned();
        let source = Source::Stock { strategy, options: purchase.options };
        let key = Some(purchase.key);
        let order = OrderRequest::new(purchase.buyer, [line], source, key, Trace::default());
        self.purchases.order(order).await
    }

    fn is_available(&self, strategy: &str) -> bool {
        let mut cards = self.purchases.strategies().cards();
        cards.any(|(card, is_available)| card.name == strategy && is_available)
    }

    fn sold_out_age(&self) -> Duration {
        self.sold_out_age
    }
}
