//! Reads the stock row; only the arbiter takes stock.

use sqlx::{MySqlExecutor, Row};
use time::OffsetDateTime;

use mysql_connection::answered;
use mysql_connection::statement::Read;
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

/// Reads the clock of the server that has the rows of these items, or of one of them where they lie in shards; `None` when
/// none of them exists. From a table: without one, a vtgate of Vitess answers by its own clock.
///
/// # Errors
/// The database's.
pub async fn time(
    from: impl MySqlExecutor<'_>,
    items: &[ItemId],
) -> sqlx::Result<Option<OffsetDateTime>> {
    if items.is_empty() {
        return Ok(None);
    }
    let ids: Vec<String> = items.iter().map(|item| item.get().to_string()).collect();
    let ids = ids.join(", ");
    let statement = format!("SELECT UTC_TIMESTAMP(6) FROM stock WHERE item_id IN ({ids}) LIMIT 1");
    // As a text: there would be a prepared statement for each number of items.
    let row = answered(from.fetch_optional(sqlx::raw_sql(&statement))).await?;
    row.map(|row| row.try_get(0)).transpose()
}

from_row!(StockRow { available, version, changed_at });
