//! Reads the stock row; only the arbiter takes stock.

use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlExecutor, Row};
use time::OffsetDateTime;

use super::link::answered;
use crate::domain::ItemId;

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
///
/// # Errors
/// The database's.
pub async fn read(from: impl MySqlExecutor<'_>, id: ItemId) -> sqlx::Result<Option<StockRow>> {
    let row = sqlx::query_as("SELECT available, version, changed_at FROM stock WHERE item_id = ?")
        .bind(id.get())
        .fetch_optional(from);
    answered(row).await
}

impl FromRow<'_, MySqlRow> for StockRow {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            available: row.try_get("available")?,
            version: row.try_get("version")?,
            changed_at: row.try_get("changed_at")?,
        })
    }
}
