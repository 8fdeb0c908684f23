//! Editing items. An edit is one transaction that also writes the operator's log: no change without its
//! line, and no line without its change.

use ledger::Database;
use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::groups::{GroupForItem, GroupForItemError};
use super::{Catalog, Ledger, LedgerParts, StockedItem, away};
use ledger::rows::actions::{self, Actor};
use ledger::rows::items::{self, ItemUpdate};
use ledger::rows::link::{TRANSACTION_MAX, within};
use ledger::rows::{self, failed_change, failed_read, limit_groups};
use ledger::waiting_list::LineChange;
use ledger::write::restock::{Restock, restock};
use shop_domain::{
    Home, ItemEdit, ItemId, ItemKind, LedgerError, LimitGroupId, Routed, SaleWindow,
};

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
    /// The group of items cannot be used for the item.
    #[error(transparent)]
    Group(#[from] GroupForItemError),
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
impl From<ledger::Error> for EditError {
    fn from(error: ledger::Error) -> Self {
        Self::Ledger(failed_change(&error))
    }
}

impl Catalog {
    /// Edits an item for an operator; a restock is part of an edit. Answers also what became of the
    /// stock and of the buyers who wait, which the caller publishes.
    pub async fn edit(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let (ledger, home) = self.ledgers.of_item(id).await.map_err(away)?;
        match self.edit_at(ledger, (id, home), edit, actor).await {
            // It may have moved; where it is gone, there is none.
            Err(EditError::Ledger(LedgerError::Moving) | EditError::NotFound) if !home.is_only => {
                let (ledger, home) = self.ledgers.of_item_again(id).await.map_err(away)?;
                self.edit_at(ledger, (id, home), edit, actor).await
            }
            edited => edited,
        }
    }

    async fn edit_at(
        &self,
        ledger: &Ledger,
        (id, home): (ItemId, Home),
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let LedgerParts { pool, breaker, .. } = &ledger.parts;
        // Read first: if the ledger does not answer here, nothing has changed for certain.
        let found = rows::ask(breaker, items::find(pool, id)).await;
        let before = found.map_err(|error| failed_read(&error))?.ok_or(EditError::NotFound)?;
        if let Some(strategy) = &edit.strategy {
            check_strategy(strategy, before.item.kind)?;
        }
        let group = match edit.limit_group {
            Some(Some(group)) => Some(self.group_for(group, Some(home.shard)).await?),
            _ => None,
        };
        let routed = Routed { item: id, home };
        let work = async { Ok(self.edit_in_ledger(pool, routed, edit, (actor, &group)).await) };
        let edited = within(TRANSACTION_MAX, work).await??;
        drop(group);
        self.forget(id);
        Ok(edited)
    }

    /// Makes the edit; answers the item after it, and what became of the stock.
    async fn edit_in_ledger(
        &self,
        pool: &Database,
        routed: Routed,
        edit: &ItemEdit,
        (actor, group): (&Actor, &Option<GroupForItem>),
    ) -> Result<(StockedItem, LineChange), EditError> {
        let id = routed.item;
        let mut transaction = rows::begin(pool).await?;
        let before = items::find_for_update(&mut transaction, id).await?;
        let before = before.ok_or(EditError::NotFound)?;
        if before.home_epoch != routed.home.epoch {
            return Err(EditError::Ledger(LedgerError::Moving));
        }
        let item = before.item;
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
        if let Some(group) = group {
            group.copy_to(&mut transaction).await?;
        }
        if let Some(group) = update.limit_group {
            limit_groups::add_item(&mut transaction, group, id).await?;
        }
        let change = self.change_stock(&mut transaction, routed, edit, actor).await?;
        let detail = edit_json(edit);
        actions::record(&mut transaction, actor, "item_edited", Some(id), &detail).await?;
        let edited = read_back(&mut transaction, routed).await?;
        transaction.commit().await?;
        Ok((edited, change))
    }

    /// Restocks, and tends the line: new units go to the buyers who wait, and a pause ends the line.
    async fn change_stock(
        &self,
        transaction: &mut MySqlConnection,
        routed: Routed,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<LineChange, EditError> {
        let mut restocked = None;
        if let Some(units) = edit.stock_delta.filter(|&units| units != 0) {
            let order = Restock { routed, units, operator: actor.user, now: actor.now };
            let version = restock(transaction, &order).await?;
            restocked = Some((units, version.ok_or(EditError::StockOutOfRange)?));
        }
        let (change, _) = self.line.tend(transaction, routed).await?;
        Ok(match restocked {
            Some((units, version)) => change.after_return(units, version),
            None => change,
        })
    }
}

/// Reads an item before the COMMIT: after it, a failed read would count as a failed change.
pub(super) async fn read_back(
    transaction: &mut MySqlConnection,
    Routed { item, home }: Routed,
) -> ledger::Result<StockedItem> {
    let found = items::find(transaction, item).await?;
    found.map(|stocked| stocked.at(home)).ok_or(ledger::Error::RowNotFound)
}

pub(super) fn check_strategy(name: &str, kind: ItemKind) -> Result<(), StrategyError> {
    let card = gates::card(name).ok_or(StrategyError::Unknown)?;
    if kind == ItemKind::Shop && !card.safe {
        return Err(StrategyError::Unsafe);
    }
    Ok(())
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

pub(super) fn rfc3339(instant: Option<OffsetDateTime>) -> Option<String> {
    instant.and_then(|instant| instant.format(&Rfc3339).ok())
}
