//! Reads the stock row; only the arbiter takes stock.

use sqlx::MySqlExecutor;
use time::OffsetDateTime;

use crate::sql::statement::Read;
use shop_domain::ItemId;

/// A stock row at the moment of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockRow {
    /// Units left; negative only where the lab turned the arbiter off.
    pub available: i64,
    /// The number of accepted changes.
    pub version: u64,
    /// The second of the last change, by the database's clock.
    pub changed_at: OffsetDateTime,
}

/// Reads an item's stock without a lock; `None` when there is no such item.
pub async fn read(from: impl MySqlExecutor<'_>, id: ItemId) -> sqlx::Result<Option<StockRow>> {
    sqlx::query_as("SELECT available, version, changed_at FROM stock WHERE item_id = ?")
        .bind(id.get())
        .first(from)
        .await
}

from_row!(StockRow { available, version, changed_at });
