//! Editing items. The transaction is in `ledger::catalog`.

use super::{Catalog, StockedItem};
use ledger::catalog::{self, EditError, StrategyError};
use ledger::rows::actions::Actor;
use ledger::rows::{items, limit_groups};
use ledger::waiting_list::LineChange;
use shop_domain::{ItemEdit, ItemId, ItemKind};

impl Catalog {
    /// Edits an item for an operator; a restock is part of an edit. Returns also what became of the
    /// stock and of the buyers who wait, which the caller publishes.
    pub async fn edit(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let ledger = &self.ledger;
        // Read first: if the ledger does not answer here, nothing has changed for certain.
        let before = ledger.read(items::find(&ledger.pool, id)).await?;
        let before = before.ok_or(EditError::NotFound)?;
        if let Some(strategy) = &edit.strategy {
            check_strategy(strategy, before.item.kind)?;
        }
        if let Some(Some(group)) = edit.limit_group
            && !ledger.read(limit_groups::exists(&ledger.pool, group)).await?
        {
            return Err(EditError::NoSuchGroup);
        }
        if let Some(Some(variant)) = &edit.variant
            && self.product(variant.product).await?.is_none()
        {
            return Err(EditError::NoSuchProduct);
        }
        let edited = catalog::edit(ledger, id, edit, actor, &self.line).await?;
        self.forget(id);
        Ok(edited)
    }
}

pub(super) fn check_strategy(name: &str, kind: ItemKind) -> Result<(), StrategyError> {
    let card = gates::card(name).ok_or(StrategyError::Unknown)?;
    if kind == ItemKind::Shop && !card.is_safe() {
        return Err(StrategyError::Unsafe);
    }
    Ok(())
}
