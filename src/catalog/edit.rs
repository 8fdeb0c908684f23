//! Creating and editing items. Each is one transaction that also writes the operator's log: no
//! change without its line, and no line without its change.

use serde_json::{Value, json};
use sqlx::{MySqlConnection, MySqlPool};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Catalog, StockedItem};
use crate::arbiter::LineChange;
use crate::arbiter::restock::{Restock, create_stock, restock};
use crate::domain::{
    ArbiterMode, ItemEdit, ItemId, ItemKind, LedgerError, LimitGroupId, NewItem, SaleWindow,
};
use crate::store::mysql::actions::{self, Actor};
use crate::store::mysql::items::{self, ItemUpdate};
use crate::store::mysql::link::{TRANSACTION_MAX, within};
use crate::store::mysql::{self, failed_change, failed_read, limit_groups};
use crate::strategy;

/// The reason why an item was not created; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// There is no such group of items.
    #[error("no such group")]
    NoSuchGroup,
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

/// The reason why a strategy cannot be the default of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// There is no strategy of this name.
    #[error("no such strategy")]
    Unknown,
    /// The strategy can oversell, and the item belongs to the shop.
    #[error("the strategy can oversell")]
    Unsafe,
}

/// The reason why an item was not edited; nothing changed unless the ledger did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// There is no such item.
    #[error("no such item")]
    NotFound,
    /// The item has another revision than the operator saw.
    #[error("the item was edited since")]
    RevisionChanged,
    /// The new schedule ends before it starts.
    #[error("the sale must start before it ends")]
    InvalidSchedule,
    /// There is no such group of items.
    #[error("no such group")]
    NoSuchGroup,
    /// Fewer units are left than were to be taken out, or the total would be too large.
    #[error("the stock would be out of range")]
    StockOutOfRange,
    /// The strategy cannot be used for the item.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// For `?` inside the transaction of an edit.
impl From<sqlx::Error> for EditError {
    fn from(error: sqlx::Error) -> Self {
        Self::Ledger(failed_change(&error))
    }
}

/// Creates an item and its stock without an operator and without checks: for demo sales and the
/// lab.
///
/// # Errors
/// The database's.
pub async fn create(
    pool: &MySqlPool,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<StockedItem> {
    let mut transaction = pool.begin().await?;
    let id = insert(&mut transaction, new, now).await?;
    let created = read_back(&mut transaction, id).await?;
    transaction.commit().await?;
    Ok(created)
}

/// Checks whether a new item may be created.
///
/// # Errors
/// See [`CreateError`].
pub fn check(new: &NewItem) -> Result<(), CreateError> {
    if new.kind == ItemKind::Shop && new.arbiter == ArbiterMode::Off {
        return Err(CreateError::ArbiterRequired);
    }
    Ok(check_strategy(&new.strategy, new.kind)?)
}

impl Catalog {
    /// Creates an item and its stock for an operator, and reads it back.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn create(&self, new: &NewItem, actor: &Actor) -> Result<StockedItem, CreateError> {
        let created = self.create_all(std::slice::from_ref(new), actor).await?;
        created.into_iter().next().ok_or(CreateError::Ledger(LedgerError::OutcomeUnknown))
    }

    /// Creates items and their stock for an operator, all or none, and reads them back.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub async fn create_all(
        &self,
        all: &[NewItem],
        actor: &Actor,
    ) -> Result<Vec<StockedItem>, CreateError> {
        for new in all {
            check(new)?;
        }
        for group in all.iter().filter_map(|new| new.limit_group) {
            if !self.has_group(group).await? {
                return Err(CreateError::NoSuchGroup);
            }
        }
        let create = async {
            let mut transaction = self.pool.begin().await?;
            let mut created = Vec::with_capacity(all.len());
            for new in all {
                let id = insert(&mut transaction, new, actor.now).await?;
                let detail = new_item_json(new);
                actions::record(&mut transaction, actor, "item_created", Some(id), &detail).await?;
                created.push(read_back(&mut transaction, id).await?);
            }
            transaction.commit().await?;
            Ok(created)
        };
        let created = mysql::change(&self.breaker, create).await;
        let created = created.map_err(|error| failed_change(&error))?;
        for stocked in &created {
            // A request for this id may have cached that there is no such item.
            self.forget(stocked.item.id);
        }
        Ok(created)
    }

    /// Edits an item for an operator; a restock is part of an edit. Answers also what became of the
    /// stock and of the buyers who wait, which the caller publishes.
    ///
    /// # Errors
    /// See [`EditError`].
    pub async fn edit(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        // Read first: if the ledger does not answer here, nothing has changed for certain.
        let found = mysql::ask(&self.breaker, items::find(&self.pool, id)).await;
        let before = found.map_err(|error| failed_read(&error))?.ok_or(EditError::NotFound)?;
        if let Some(strategy) = &edit.strategy {
            check_strategy(strategy, before.item.kind)?;
        }
        if let Some(Some(group)) = edit.limit_group
            && !self.has_group(group).await?
        {
            return Err(EditError::NoSuchGroup);
        }
        let work = async { Ok(self.edit_in_ledger(id, edit, actor).await) };
        let edited = within(TRANSACTION_MAX, work).await??;
        self.forget(id);
        Ok(edited)
    }

    async fn has_group(&self, group: LimitGroupId) -> Result<bool, LedgerError> {
        let found = mysql::ask(&self.breaker, limit_groups::exists(&self.pool, group)).await;
        found.map_err(|error| failed_read(&error))
    }

    /// Makes the edit; answers the item after it, and what became of the stock.
    async fn edit_in_ledger(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let mut transaction = self.pool.begin().await?;
        let before = items::find_for_update(&mut transaction, id).await?;
        let item = before.ok_or(EditError::NotFound)?.item;
        if edit.revision_seen.is_some_and(|seen| seen != item.revision) {
            return Err(EditError::RevisionChanged);
        }
        let window = SaleWindow::new(
            edit.starts_at.unwrap_or_else(|| item.window.starts_at()),
            edit.ends_at.unwrap_or_else(|| item.window.ends_at()),
        );
        let update = ItemUpdate {
            window: window.ok_or(EditError::InvalidSchedule)?,
            paused: edit.paused.unwrap_or(item.paused),
            waiting_room: edit.waiting_room.unwrap_or(item.waiting_room),
            offer_seconds: edit.offer_seconds.unwrap_or(item.offer_seconds),
            limit_group: edit
                .limit_group
                .unwrap_or_else(|| item.limit_group.as_ref().map(|group| group.id)),
            strategy: edit.strategy.as_deref().unwrap_or(&item.strategy),
        };
        items::update(&mut transaction, id, &update).await?;
        if let Some(group) = update.limit_group {
            limit_groups::add_item(&mut transaction, group, id).await?;
        }
        let change = self.change_stock(&mut transaction, id, edit, actor).await?;
        let detail = edit_json(edit);
        actions::record(&mut transaction, actor, "item_edited", Some(id), &detail).await?;
        let edited = read_back(&mut transaction, id).await?;
        transaction.commit().await?;
        Ok((edited, change))
    }

    /// Restocks, and tends the line: new units go to the buyers who wait, and a pause ends the line.
    async fn change_stock(
        &self,
        transaction: &mut MySqlConnection,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<LineChange, EditError> {
        let mut restocked = None;
        if let Some(units) = edit.stock_delta.filter(|&units| units != 0) {
            let order = Restock { item: id, units, operator: actor.user, now: actor.now };
            let version = restock(transaction, &order).await?;
            restocked = Some((units, version.ok_or(EditError::StockOutOfRange)?));
        }
        let (change, _) = self.line.tend(transaction, id).await?;
        Ok(match restocked {
            Some((units, version)) => change.after_return(units, version),
            None => change,
        })
    }
}

async fn insert(
    transaction: &mut MySqlConnection,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<ItemId> {
    let id = items::insert(transaction, new, now).await?;
    create_stock(transaction, id, new.stock).await?;
    if let Some(group) = new.limit_group {
        limit_groups::add_item(transaction, group, id).await?;
    }
    Ok(id)
}

/// Reads an item before the COMMIT: after it, a failed read would count as a failed change.
async fn read_back(transaction: &mut MySqlConnection, id: ItemId) -> sqlx::Result<StockedItem> {
    items::find(transaction, id).await?.ok_or(sqlx::Error::RowNotFound)
}

fn check_strategy(name: &str, kind: ItemKind) -> Result<(), StrategyError> {
    let card = strategy::card(name).ok_or(StrategyError::Unknown)?;
    if kind == ItemKind::Shop && !card.safe {
        return Err(StrategyError::Unsafe);
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

/// The operators' log line of an edit: the fields that it changes.
fn edit_json(edit: &ItemEdit) -> Value {
    let mut detail = json!({
        "starts_at": rfc3339(edit.starts_at),
        "ends_at": rfc3339(edit.ends_at),
        "paused": edit.paused,
        "waiting_room": edit.waiting_room,
        "offer_seconds": edit.offer_seconds,
        // 0: taken out of its group.
        "limit_group_id": edit.limit_group.map(|group| group.map_or(0, LimitGroupId::get)),
        "strategy": edit.strategy,
        "stock_delta": edit.stock_delta.filter(|delta| *delta != 0),
    });
    if let Some(fields) = detail.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    detail
}

fn rfc3339(instant: Option<OffsetDateTime>) -> Option<String> {
    instant.and_then(|instant| instant.format(&Rfc3339).ok())
}
