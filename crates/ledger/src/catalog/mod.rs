//! The transactions that create items, products and groups of items that share a limit, and edit items. Each also
//! writes the operator's log: no change without its line, and no line without its change.

mod create;
mod edit;

use serde_json::json;
use sqlx::MySqlConnection;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::rows::account::actions::{self, Actor};
use crate::rows::item::items::{self, StockedItem};
use crate::rows::item::{limit_groups, products};
use crate::work::Ledger;
use shop_domain::product::NewProduct;
use shop_domain::{ItemId, LedgerError, LimitGroup, Product};

pub use crate::rows::item::creations::KeyedRequest;
pub use create::{Created, NewItems, create, find_created};
pub use edit::{EditError, StrategyError, edit};

/// Creates a group for an operator.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create_group(
    ledger: &Ledger,
    name: &str,
    per_buyer_limit: u32,
    actor: &Actor,
) -> Result<LimitGroup, LedgerError> {
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let group = limit_groups::insert(transaction, name, per_buyer_limit, actor.now).await?;
            let detail =
                json!({ "id": group.id.get(), "name": name, "per_buyer_limit": per_buyer_limit });
            actions::record(transaction, actor, "limit_group_created", None, &detail).await?;
            Ok(group)
        })
    });
    created.await
}

/// Creates a product for an operator.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create_product(
    ledger: &Ledger,
    new: &NewProduct,
    actor: &Actor,
) -> Result<Product, LedgerError> {
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let product = products::insert(transaction, new, actor.now).await?;
            let detail = json!({ "id": product.id.get(), "name": product.name });
            actions::record(transaction, actor, "product_created", None, &detail).await?;
            Ok(product)
        })
    });
    created.await
}

/// Reads an item before the COMMIT: after it, a failed read would count as a failed change.
async fn read_back(transaction: &mut MySqlConnection, item: ItemId) -> sqlx::Result<StockedItem> {
    items::find(transaction, item).await?.ok_or(sqlx::Error::RowNotFound)
}

fn rfc3339(instant: Option<OffsetDateTime>) -> Option<String> {
    instant.and_then(|instant| instant.format(&Rfc3339).ok())
}
