//! Reads the stock row; only the arbiter takes stock.

use std::collections::HashMap;

use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::error::moved;
use super::statement::{Read, in_list};
use shop_domain::{ItemId, ItemRoute};

/// A stock row at the moment of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockRow {
    /// Units left; negative only where the lab turned the arbiter off.
    pub available: i64,
    /// The number of accepted changes.
    pub version: u64,
    /// The second of the last change, by the database's clock.
    pub changed_at: OffsetDateTime,
    /// The epoch that a route to the item must have.
    pub home_epoch: u64,
}

/// Reads an item's stock without a lock; `None` when there is no such item.
pub async fn read(from: impl MySqlExecutor<'_>, id: ItemId) -> sqlx::Result<Option<StockRow>> {
    sqlx::query_as("SELECT available, version, changed_at, home_epoch FROM stock WHERE item_id = ?")
        .bind(id.get())
        .first(from)
        .await
}

/// Reads the epoch of an item's stock row, to compare it with that of the route by which something else of
/// the item was read before; `None` without a row, and while there is one ledger.
pub async fn epoch(
    from: impl MySqlExecutor<'_>,
    ItemRoute { item, home }: ItemRoute,
) -> sqlx::Result<Option<u64>> {
    if home.is_only {
        return Ok(None);
    }
    Ok(read(from, item).await?.map(|row| row.home_epoch))
}

/// Reads an item's stock like [`read`], and compares its epoch with that of the route.
///
/// # Errors
/// The database's, and [`moved`] when the item has moved.
pub async fn read_routed(
    from: impl MySqlExecutor<'_>,
    ItemRoute { item, home }: ItemRoute,
) -> sqlx::Result<Option<StockRow>> {
    match read(from, item).await? {
        Some(row) if row.home_epoch != home.epoch => Err(moved()),
        None if !home.is_only => Err(moved()),
        row => Ok(row),
    }
}

/// Reads the epochs of the stock rows of some items; an item without a row is left out.
pub async fn epochs(
    from: impl MySqlExecutor<'_>,
    items: &[ItemId],
) -> sqlx::Result<HashMap<ItemId, u64>> {
    let Some((places, items)) = in_list(items) else { return Ok(HashMap::new()) };
    let statement = format!("SELECT item_id, home_epoch FROM stock WHERE item_id IN ({places})");
    let mut query = sqlx::query_as(&statement);
    for item in items {
        query = query.bind(item.get());
    }
    let rows: Vec<(ItemId, u64)> = query.all(from).await?;
    Ok(rows.into_iter().collect())
}

/// Checks, in a transaction that does not write the stock row, that the item still lives at the end of the
/// route, and keeps it there until the transaction ends. Asks nothing while there is one ledger.
///
/// # Errors
/// The database's, and [`moved`] when the item has moved.
pub async fn check_home(
    transaction: &mut MySqlConnection,
    ItemRoute { item, home }: ItemRoute,
) -> sqlx::Result<()> {
    if home.is_only {
        return Ok(());
    }
    let epoch: Option<u64> =
        sqlx::query_scalar("SELECT home_epoch FROM stock WHERE item_id = ? LOCK IN SHARE MODE")
            .bind(item.get())
            .fetch_optional(transaction)
            .await?;
    if epoch == Some(home.epoch) { Ok(()) } else { Err(moved()) }
}

from_row!(StockRow { available, version, changed_at, home_epoch });
