//! What extensions ask of the core.

use std::time::Duration;

use async_trait::async_trait;
use gates::Options;
use ledger::rows::actions::Actor;
use shop_domain::{Item, ItemEdit, ItemId, NewItem, Outcome, Quantity, RequestKey, UserId};
use std::sync::Arc;
use time::OffsetDateTime;

/// Sales of items that do not belong to the shop, for trying a strategy out.
#[async_trait]
pub trait TrialSales: Send + Sync {
    /// Creates an item.
    ///
    /// # Errors
    /// A sentence.
    async fn create(&self, new: &NewItem, now: OffsetDateTime) -> Result<Arc<Item>, String>;

    /// Edits an item.
    ///
    /// # Errors
    /// A sentence.
    async fn edit(&self, item: ItemId, edit: &ItemEdit, actor: &Actor) -> Result<(), String>;

    /// Buys, on the way of every purchase.
    async fn buy(&self, purchase: TrialPurchase) -> Outcome;

    /// Whether the servers of a strategy are configured.
    fn is_available(&self, strategy: &str) -> bool;

    /// How old the word "sold out" may be.
    fn sold_out_age(&self) -> Duration;
}

/// A purchase that tries a strategy out.
pub struct TrialPurchase {
    pub buyer: UserId,
    pub item: ItemId,
    /// The number of units.
    pub quantity: Quantity,
    /// The strategy's name.
    pub strategy: &'static str,
    /// The parameters of a lock strategy.
    pub options: Options,
    pub key: RequestKey,
}
