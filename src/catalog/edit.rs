//! Editing items. The transaction is in `ledger::catalog`.

use super::{Catalog, CatalogLedger, StockedItem};
use ledger::catalog::{self, EditError, GroupForItem, StrategyError};
use ledger::rows::actions::Actor;
use ledger::rows::items;
use ledger::waiting_list::LineChange;
use shop_domain::{ItemEdit, ItemId, ItemKind, ItemRoute};

impl Catalog {
    /// Edits an item for an operator; a restock is part of an edit. Returns also what became of the
    /// stock and of the buyers who wait, which the caller publishes.
    pub async fn edit(
        &self,
        id: ItemId,
        edit: &ItemEdit,
        actor: &Actor,
    ) -> Result<(StockedItem, LineChange), EditError> {
        let edited = self.ledgers.write(id, |ledger, home| {
            self.edit_at(ledger, ItemRoute { item: id, home }, edit, actor)
        });
        edited.await
    }

    async fn edit_at(
        &self,
        CatalogLedger { items, .. }: &CatalogLedger,
        routed: ItemRoute,
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
        let product = match &edit.variant {
            Some(Some(variant)) => {
                Some(self.product(variant.product).await?.ok_or(EditError::NoSuchProduct)?)
            }
            _ => None,
        };
        let change = (edit, group.as_ref(), product.as_ref());
        let edited = catalog::edit(ledger, routed, change, actor, &self.line).await?;
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
