//! Creating items. The transaction is in `ledger::catalog`.

use ledger::Database;
use time::OffsetDateTime;

use super::edit::check_strategy;
use super::{Catalog, GroupForItemError, StockedItem, StrategyError};
use ledger::catalog::{self, GroupForItem, NewItems};
use ledger::rows::actions::Actor;
use ledger::rows::{self, failed_change, homes};
use shop_domain::{ArbiterMode, Home, ItemKind, LedgerError, NewItem, Product, ShardId};

/// The reason why an item was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The group of items cannot be used for the item.
    #[error(transparent)]
    Group(#[from] GroupForItemError),
    /// There is no such product.
    #[error("no such product")]
    NoSuchProduct,
    /// There is no ledger of this number.
    #[error("no such shard")]
    NoSuchShard,
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

/// Creates an item and its stock in the home ledger, without an operator and without checks: for demo
/// sales.
pub async fn create(
    pool: &Database,
    new: &NewItem,
    now: OffsetDateTime,
) -> ledger::Result<StockedItem> {
    let items = std::slice::from_ref(new);
    let new = NewItems { items, now, actor: None, groups: &[], products: &[], home: Home::ONLY };
    let created = catalog::create(pool, pool, new).await?;
    created.into_iter().next().ok_or(ledger::Error::RowNotFound)
}

/// Checks whether a new item may be created.
pub fn check(new: &NewItem) -> Result<(), CreateError> {
    if new.kind == ItemKind::Shop && new.arbiter == ArbiterMode::Off {
        return Err(CreateError::ArbiterRequired);
    }
    Ok(check_strategy(&new.strategy, new.kind)?)
}

impl Catalog {
    /// Creates an item and its stock for an operator, and reads it back.
    pub async fn create(&self, new: &NewItem, actor: &Actor) -> Result<StockedItem, CreateError> {
        let created = self.create_all(std::slice::from_ref(new), actor).await?;
        created.into_iter().next().ok_or(CreateError::Ledger(LedgerError::OutcomeUnknown))
    }

    /// Creates items and their stock for an operator, all or none, and reads them back. They all live in
    /// one ledger: that of their groups, the one that is asked for, or the one with the fewest items.
    pub async fn create_all(
        &self,
        all: &[NewItem],
        actor: &Actor,
    ) -> Result<Vec<StockedItem>, CreateError> {
        self.create_by(all, actor.now, Some(actor)).await
    }

    /// Finds the products, the groups of items and the ledgers that new items name and that do not exist. Returns the
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
                unknown.push((place, CreateError::Group(GroupForItemError::NotFound)));
            }
            if new.shard.is_some_and(|asked| self.ledgers.iter().all(|(known, _)| known != asked)) {
                unknown.push((place, CreateError::NoSuchShard));
            }
        }
        Ok(unknown)
    }

    /// Creates an item and its stock without an operator, for the lab.
    pub async fn create_for_lab(
        &self,
        new: &NewItem,
        now: OffsetDateTime,
    ) -> Result<StockedItem, CreateError> {
        let created = self.create_by(std::slice::from_ref(new), now, None).await?;
        created.into_iter().next().ok_or(CreateError::Ledger(LedgerError::OutcomeUnknown))
    }

    async fn create_by(
        &self,
        all: &[NewItem],
        now: OffsetDateTime,
        actor: Option<&Actor>,
    ) -> Result<Vec<StockedItem>, CreateError> {
        for new in all {
            check(new)?;
        }
        let mut shard = None;
        for asked in all.iter().filter_map(|new| new.shard) {
            if self.ledgers.iter().all(|(known, _)| known != asked)
                || shard.is_some_and(|shard| shard != asked)
            {
                return Err(CreateError::NoSuchShard);
            }
            shard = Some(asked);
        }
        // Held until the items are there, so that no other item of a group finds another ledger.
        let mut groups: Vec<GroupForItem> = Vec::new();
        for id in all.iter().filter_map(|new| new.limit_group) {
            if groups.iter().all(|group| group.id() != id) {
                let group = GroupForItem::find(&self.rows(), id, shard).await?;
                shard = shard.or(group.shard());
                groups.push(group);
            }
        }
        let mut products: Vec<Product> = Vec::new();
        for id in all.iter().filter_map(|new| new.variant.as_ref()).map(|variant| variant.product) {
            if products.iter().all(|product| product.id != id) {
                products.push(self.product(id).await?.ok_or(CreateError::NoSuchProduct)?);
            }
        }
        let shard = match shard {
            Some(shard) => shard,
            None => self.emptiest().await?,
        };
        let (own, at_home) =
            (&self.ledgers.at(shard).items.ledger, &self.ledgers.home().items.ledger);
        let home = Home { shard, epoch: 1, is_only: self.ledgers.homes().is_only() };
        let new = NewItems { items: all, now, actor, groups: &groups, products: &products, home };
        let create = catalog::create(&at_home.pool, &own.pool, new);
        let created = rows::change(&own.breaker, Box::pin(create)).await;
        let created = created.map_err(|error| failed_change(&error))?;
        for stocked in &created {
            // A request for this id may have cached that there is no such item.
            self.forget(stocked.item.id);
        }
        Ok(created)
    }

    /// The ledger with the fewest items. A ledger that does not answer gets none.
    async fn emptiest(&self) -> Result<ShardId, LedgerError> {
        if self.ledgers.homes().is_only() {
            return Ok(ShardId::HOME);
        }
        let home = &self.ledgers.home().items.ledger;
        let count = async {
            let mut items = homes::count(&home.pool).await?;
            items.insert(ShardId::HOME, homes::count_items(&home.pool).await?);
            Ok(items)
        };
        let items = home.read(count).await?;
        let usable =
            self.ledgers.iter().filter(|(_, ledger)| !ledger.items.ledger.breaker.is_open());
        let usable = usable.map(|(shard, _)| shard);
        let emptiest = usable.min_by_key(|shard| items.get(shard).copied().unwrap_or_default());
        Ok(emptiest.unwrap_or_default())
    }
}
