//! Creating items. The transaction is in `ledger::catalog`.

use ledger::Ledger;
use mysql_connection::Database;
use time::OffsetDateTime;

use super::edit::check_strategy;
use super::{Catalog, StockedItem, StrategyError};
use ledger::catalog::{self, Created, KeyedRequest, NewItems};
use ledger::rows::actions::Actor;
use ledger::work::{self, failed_change};
use shop_domain::{ArbiterMode, ItemId, ItemKind, LedgerError, NewItem};

/// The reason why an item, a product or a group was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There are as many products as there may be.
    #[error("too many products")]
    TooManyProducts,
    /// There are as many groups as there may be.
    #[error("too many groups")]
    TooManyLimitGroups,
    /// There is no such group of items.
    #[error("no such group")]
    NoSuchGroup,
    /// There is no such product.
    #[error("no such product")]
    NoSuchProduct,
    /// An earlier request with the same key had another body.
    #[error("the key belongs to another request")]
    KeyReused,
    /// A shop item without the arbiter.
    #[error("an item of the shop must have the arbiter on")]
    ArbiterRequired,
    /// The strategy cannot be used for the item.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Creates an item and its stock without an operator and without checks: for demo sales. `id` is its number if pages
/// name it.
pub async fn create(
    pool: &Database,
    id: Option<ItemId>,
    new: &NewItem,
    now: OffsetDateTime,
) -> ledger::Result<StockedItem> {
    let items = std::slice::from_ref(new);
    let new = NewItems { items, now, actor: None, first_id: id, request: None };
    let created = catalog::create(pool, new).await?;
    created.and_then(|created| created.items.into_iter().next()).ok_or(ledger::Error::RowNotFound)
}

/// Checks whether a new item may be created.
pub fn check(new: &NewItem) -> Result<(), CreateError> {
    if new.kind == ItemKind::Shop && new.arbiter == ArbiterMode::Off {
        return Err(CreateError::ArbiterRequired);
    }
    Ok(check_strategy(&new.strategy, new.kind)?)
}

impl Catalog {
    /// Creates items and their stock for an operator, all or none, and reads them back. With a `request`, a repetition
    /// of it creates none.
    pub async fn create_all(
        &self,
        all: &[NewItem],
        actor: &Actor,
        request: Option<KeyedRequest<'_>>,
    ) -> Result<Created, CreateError> {
        let new =
            NewItems { items: all, now: actor.now, actor: Some(actor), first_id: None, request };
        self.create(new).await
    }

    /// Finds the items that an earlier request with the same key and body has created.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find_created(
        &self,
        request: Option<KeyedRequest<'_>>,
    ) -> Result<Option<Created>, LedgerError> {
        let Some(request) = request else { return Ok(None) };
        self.ledger.read(catalog::find_created(&self.ledger.pool, request)).await
    }

    /// Finds the products and the groups of items that new items name and that do not exist. Returns the
    /// place of the item in `all`, with the error that its creation would have.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn unknown_names(
        &self,
        all: &[NewItem],
    ) -> Result<Vec<(usize, CreateError)>, LedgerError> {
        let has_variants = all.iter().any(|new| new.variant.is_some());
        let products = if has_variants { self.products().await? } else { Vec::new() };
        let has_groups = all.iter().any(|new| new.limit_group.is_some());
        let groups = if has_groups { self.limit_groups().await? } else { Vec::new() };
        let mut unknown = Vec::new();
        for (place, new) in all.iter().enumerate() {
            let product = new.variant.as_ref().map(|variant| variant.product);
            if product.is_some_and(|id| products.iter().all(|product| product.id != id)) {
                unknown.push((place, CreateError::NoSuchProduct));
            }
            if new.limit_group.is_some_and(|id| groups.iter().all(|group| group.id != id)) {
                unknown.push((place, CreateError::NoSuchGroup));
            }
        }
        Ok(unknown)
    }

    /// Creates items and their stock, all or none, and reads them back.
    pub async fn create(&self, new: NewItems<'_>) -> Result<Created, CreateError> {
        for item in new.items {
            check(item)?;
        }
        if let Some((_, unknown)) = self.unknown_names(new.items).await?.into_iter().next() {
            return Err(unknown);
        }
        let Ledger { pool, breaker, .. } = &self.ledger;
        let created = work::change(breaker, Box::pin(catalog::create(pool, new))).await;
        let created = created.map_err(|error| failed_change(&error))?;
        let created = created.ok_or(CreateError::KeyReused)?;
        for stocked in &created.items {
            // A request for this id may have cached that there is no such item.
            self.forget(stocked.item.id);
        }
        Ok(created)
    }
}
