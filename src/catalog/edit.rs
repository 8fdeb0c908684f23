//! Editing items. The transaction is in `ledger::catalog`.

use super::{Catalog, CatalogLedger, GroupForItemError, StockedItem};
use ledger::catalog::{self, EditRefusal, GroupForItem};
use ledger::route::RoutedError;
use ledger::rows::actions::Actor;
use ledger::rows::{Rollback, failed_change, items};
use ledger::waiting_list::LineChange;
use shop_domain::{ItemEdit, ItemId, ItemKind, LedgerError, Routed};

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

impl From<Rollback<EditRefusal>> for EditError {
    fn from(error: Rollback<EditRefusal>) -> Self {
        match error {
            Rollback::Refused(EditRefusal::NotFound) => Self::NotFound,
            Rollback::Refused(EditRefusal::RevisionChanged) => Self::RevisionChanged,
            Rollback::Refused(EditRefusal::InvalidSchedule) => Self::InvalidSchedule,
            Rollback::Refused(EditRefusal::StockOutOfRange) => Self::StockOutOfRange,
            Rollback::Failed(error) => Self::Ledger(failed_change(&error)),
        }
    }
}

impl RoutedError for EditError {
    /// Where an item is gone, there is none.
    fn may_have_moved(&self) -> bool {
        matches!(self, Self::Ledger(LedgerError::Moving) | Self::NotFound)
    }
}

impl Catalog {
    /// Edits an item for an operator; a restock is part of an edit. Returns also what became of the
    /// stock and of the buyers who wait, which the caller publishes.
    pub async fn edit(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let edited = self
            .ledgers
            .write(id, |ledger, home| self.edit_at(ledger, Routed { item: id, home }, edit, actor));
        edited.await
    }

    async fn edit_at(
        &self,
        CatalogLedger { items, .. }: &CatalogLedger,
        routed: Routed,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let (id, ledger) = (routed.item, &items.ledger);
        // Read first: if the ledger does not answer here, nothing has changed for certain.
        let before = ledger.read(items::find(&ledger.pool, id)).await?;
        let before = before.ok_or(EditError::NotFound)?;
        if let Some(strategy) = &edit.strategy {
            check_strategy(strategy, before.item.kind)?;
        }
        // Held until the item is edited, so that no other item of the group finds another ledger.
        let group = match edit.limit_group {
            Some(Some(group)) => {
                Some(GroupForItem::find(&self.rows(), group, Some(routed.home.shard)).await?)
            }
            _ => None,
        };
        let edited =
            catalog::edit(ledger, routed, (edit, group.as_ref()), actor, &self.line).await?;
        drop(group);
        self.forget(id);
        Ok(edited)
    }
}

pub(super) fn check_strategy(name: &str, kind: ItemKind) -> Result<(), StrategyError> {
    let card = gates::card(name).ok_or(StrategyError::Unknown)?;
    if kind == ItemKind::Shop && !card.safe {
        return Err(StrategyError::Unsafe);
    }
    Ok(())
}
