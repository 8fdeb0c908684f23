//! What extensions ask of the core, and what the core asks of extensions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gates::Options;
use ledger::rows::actions::Actor;
use ledger::waiting_list::LineChange;
use shop_domain::{
    Currency, Item, ItemEdit, ItemId, LedgerError, NewDraw, NewItem, Outcome, Quantity, RequestKey,
    UserId,
};
use time::OffsetDateTime;
use web::problem::Problem;

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

/// Reads a new item of the text of its fields, which are those of the request that creates one.
pub trait ItemForm: Send + Sync {
    /// `field` gives the text of a field, if it has one. An item without a currency has `currency`.
    ///
    /// # Errors
    /// The problem of the first field that is wrong.
    fn read(
        &self,
        field: &dyn Fn(&str) -> Option<String>,
        currency: Currency,
    ) -> Result<NewItem, Problem>;
}

/// Creates several items, all or none.
#[async_trait]
pub trait NewItems: Send + Sync {
    /// Finds what new items name and what does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer.
    async fn unknown_names(&self, new: &[NewItem]) -> Result<Vec<UnknownName>, Problem>;

    /// Creates the items, and notes who did it.
    ///
    /// # Errors
    /// The problem of the first item that cannot be created, or the ledger's.
    async fn create_all(&self, new: &[NewItem], actor: &Actor) -> Result<Vec<Arc<Item>>, Problem>;
}

/// Something that a new item names and that does not exist.
pub struct UnknownName {
    /// The place of the item among the new ones.
    pub place: usize,
    /// The field that names it.
    pub column: &'static str,
    pub problem: Problem,
}

/// The items, as the core reads them through its cache.
#[async_trait]
pub trait Items: Send + Sync {
    /// Finds an item as it was at most `age_max` ago; `None` if there is no such item.
    async fn find_recent(
        &self,
        item: ItemId,
        age_max: Duration,
    ) -> Result<Option<Arc<Item>>, LedgerError>;

    /// Forgets what was read of an item, so that the next one who asks reads the ledger.
    fn forget(&self, item: ItemId);
}

/// The waiting lists of items.
#[async_trait]
pub trait WaitingLists: Send + Sync {
    /// Counts a change of a line that was committed, and tells the counters and the buyers of it.
    async fn publish(&self, item: ItemId, change: &LineChange);
}

/// What the operator asks of the draw of a new item.
#[derive(Clone, Copy, Debug)]
pub struct DrawPromise {
    /// The end of the time in which buyers can enter.
    pub closes_at: OffsetDateTime,
    /// The most friends who are drawn as one.
    pub party_max: u8,
}

/// Asked by the core when an operator creates an item that is drawn.
pub trait AnnounceDraws: Send + Sync {
    /// Makes the promise of a new item's draw; `None` if the item cannot be drawn, or not with this close or this
    /// number of friends.
    fn announce(&self, item: &NewItem, promise: DrawPromise) -> Option<NewDraw>;
}
