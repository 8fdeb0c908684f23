//! Creating items. One transaction writes the items, their stock and the operator's log.
//!
//! The home ledger gives out the ids. An item of another ledger has its id, and with it its place, before
//! it exists: if its own transaction fails, the id stays unused.

use ledger::Database;
use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::edit::{check_strategy, read_back, rfc3339};
use super::groups::{GroupForItem, GroupForItemError};
use super::{Catalog, StockedItem, StrategyError};
use ledger::rows::actions::{self, Actor};
use ledger::rows::{self, Fault, failed_change, failed_read, homes, items, limit_groups};
use ledger::write::restock::create_stock;
use shop_domain::{
    ArbiterMode, Home, ItemId, ItemKind, LedgerError, LimitGroupId, NewItem, Routed, ShardId,
};

/// Tries to find ids that no item of an older build has.
const IDS_ATTEMPTS_MAX: u32 = 3;

/// The reason why an item was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The group of items cannot be used for the item.
    #[error(transparent)]
    Group(#[from] GroupForItemError),
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
    let ledgers = Ledgers { home_pool: pool, pool, home: Home::ONLY };
    let created = ledgers.insert(std::slice::from_ref(new), (now, None), &[]).await?;
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
                let group = self.group_for(id, shard).await?;
                shard = shard.or(group.shard());
                groups.push(group);
            }
        }
        let shard = match shard {
            Some(shard) => shard,
            None => self.emptiest().await?,
        };
        let (own, at_home) = (&self.ledgers.at(shard).parts, &self.ledgers.home().parts);
        let home = Home { shard, epoch: 1, is_only: self.ledgers.homes().is_only() };
        let ledgers = Ledgers { home_pool: &at_home.pool, pool: &own.pool, home };
        let created = rows::change(&own.breaker, ledgers.insert(all, (now, actor), &groups)).await;
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
        let home = &self.ledgers.home().parts;
        let count = async {
            let mut items = homes::count(&home.pool).await?;
            items.insert(ShardId::HOME, homes::count_items(&home.pool).await?);
            Ok(items)
        };
        let items = rows::ask(&home.breaker, count).await.map_err(|error| failed_read(&error))?;
        let usable = self.ledgers.iter().filter(|(_, ledger)| !ledger.parts.breaker.is_open());
        let usable = usable.map(|(shard, _)| shard);
        let emptiest = usable.min_by_key(|shard| items.get(shard).copied().unwrap_or_default());
        Ok(emptiest.unwrap_or_default())
    }
}

/// The ledgers that a new item is written to.
struct Ledgers<'a> {
    /// Gives out ids.
    home_pool: &'a Database,
    pool: &'a Database,
    home: Home,
}

impl Ledgers<'_> {
    /// Inserts items; once more with other ids when an older build has used the first ones.
    async fn insert(
        &self,
        all: &[NewItem],
        (now, actor): (OffsetDateTime, Option<&Actor>),
        groups: &[GroupForItem],
    ) -> ledger::Result<Vec<StockedItem>> {
        let mut attempt = 1;
        loop {
            match self.try_insert(all, (now, actor), groups).await {
                Err(error)
                    if Fault::of(&error) == Fault::Duplicate && attempt < IDS_ATTEMPTS_MAX =>
                {
                    attempt += 1;
                    let mut connection = self.home_pool.acquire().await?;
                    homes::skip_older_items(&mut connection).await?;
                }
                inserted => return inserted,
            }
        }
    }

    async fn try_insert(
        &self,
        all: &[NewItem],
        (now, actor): (OffsetDateTime, Option<&Actor>),
        groups: &[GroupForItem],
    ) -> ledger::Result<Vec<StockedItem>> {
        let is_elsewhere = self.home.shard != ShardId::HOME;
        let mut ids = Vec::new();
        if is_elsewhere {
            let mut transaction = rows::begin(self.home_pool).await?;
            for _ in all {
                ids.push(homes::insert(&mut transaction, self.home.shard).await?);
            }
            transaction.commit().await?;
        }
        let mut ids = ids.into_iter();
        let mut transaction = rows::begin(self.pool).await?;
        for group in groups {
            group.copy_to(&mut transaction).await?;
        }
        let mut created = Vec::with_capacity(all.len());
        for new in all {
            let id = match ids.next() {
                Some(id) => id,
                None => homes::insert(&mut transaction, ShardId::HOME).await?,
            };
            let routed = Routed { item: id, home: self.home };
            insert_item(&mut transaction, routed, new, now).await?;
            if let Some(actor) = actor {
                let detail = new_item_json(new);
                actions::record(&mut transaction, actor, "item_created", Some(id), &detail).await?;
            }
            created.push(read_back(&mut transaction, routed).await?);
        }
        transaction.commit().await?;
        Ok(created)
    }
}

async fn insert_item(
    transaction: &mut MySqlConnection,
    routed: Routed,
    new: &NewItem,
    now: OffsetDateTime,
) -> ledger::Result<()> {
    let id: ItemId = routed.item;
    items::insert(transaction, id, new, now).await?;
    create_stock(transaction, routed, new.stock).await?;
    if let Some(group) = new.limit_group {
        limit_groups::add_item(transaction, group, id).await?;
    }
    Ok(())
}

/// The operators' log line of a new item.
fn new_item_json(new: &NewItem) -> Value {
    json!({
        "name": new.name,
        "price_cents": new.price.cents(),
        "stock": new.stock,
        "starts_at": rfc3339(Some(new.window.starts_at())),
        "ends_at": rfc3339(Some(new.window.ends_at())),
        "per_buyer_limit": new.per_buyer_limit,
        "hold_seconds": new.hold_seconds,
        "strategy": new.strategy,
        "kind": new.kind.as_str(),
        "arbiter": new.arbiter.as_str(),
        "waiting_room": new.waiting_room,
        "offer_seconds": new.offer_seconds,
        "limit_group_id": new.limit_group.map(LimitGroupId::get),
    })
}
