//! How much buyers have of an item, read only: counting is the arbiter's.

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlExecutor, Row};

use super::link::{LONG_READ_MAX, answered, within};
use crate::domain::{ItemId, UserId};

/// Units of the buyer's orders that hold stock.
///
/// # Errors
/// The database's.
pub async fn bought(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<i64> {
    let row = sqlx::query("SELECT bought FROM buyer_limits WHERE item_id = ? AND user_id = ?")
        .bind(item.get())
        .bind(buyer.get())
        .fetch_optional(executor);
    answered(row).await?.map_or(Ok(0), |row| row.try_get::<i32, _>("bought").map(i64::from))
}

/// An item's stock and who has units of it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Units left.
    pub available: i64,
    /// The version of the stock.
    pub version: u64,
    /// Who has units, and how many.
    pub buyers: Vec<(UserId, i64)>,
}

/// Reads an item's stock and its buyers in one statement, so that both are of one moment; `None` when
/// there is no such item. What buyers have is read from the orders themselves: those of lab items
/// without an arbiter are counted nowhere else.
///
/// # Errors
/// The database's.
pub async fn holdings(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Option<Holdings>> {
    let rows = sqlx::query(
        "SELECT stock.available, stock.version, held.user_id, held.units FROM stock LEFT JOIN \
         (SELECT item_id, user_id, CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
          WHERE item_id = ? AND status IN ('pending', 'paid') GROUP BY item_id, user_id) AS held \
         ON held.item_id = stock.item_id WHERE stock.item_id = ?",
    )
    .bind(item.get())
    .bind(item.get())
    .fetch_all(executor);
    let rows = within(LONG_READ_MAX, rows).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let (available, version) = (first.try_get("available")?, first.try_get("version")?);
    let read = |row: &MySqlRow| Ok((row.try_get("user_id")?, row.try_get("units")?));
    let all: sqlx::Result<Vec<(Option<i64>, Option<i64>)>> = rows.iter().map(read).collect();
    let buyers = all?.into_iter().filter_map(|(id, units)| Some((UserId::new(id?)?, units?)));
    Ok(Some(Holdings { available, version, buyers: buyers.collect() }))
}
