//! The transactions that create items and groups, and edit items. Each also writes the operator's log: no
//! change without its line, and no line without its change.

mod create;
mod edit;
mod groups;
mod products;

use sqlx::MySqlConnection;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::rows::item::items::{self, StockedItem};
use shop_domain::ItemId;

pub use crate::rows::item::creations::KeyedRequest;
pub use create::{Creation, NewItems, create, find_created};
pub use edit::{EditError, StrategyError, edit};
pub use groups::create_group;
pub use products::create_product;

/// Reads an item before the COMMIT: after it, a failed read would count as a failed change.
async fn read_back(transaction: &mut MySqlConnection, item: ItemId) -> sqlx::Result<StockedItem> {
    items::find(transaction, item).await?.ok_or(sqlx::Error::RowNotFound)
}

fn rfc3339(instant: Option<OffsetDateTime>) -> Option<String> {
    instant.and_then(|instant| instant.format(&Rfc3339).ok())
}
