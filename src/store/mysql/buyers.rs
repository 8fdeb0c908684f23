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

/// All who have units of the item, with how many. From the orders themselves: those of lab items
/// without an arbiter are counted nowhere else.
///
/// # Errors
/// The database's.
pub async fn holding(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Vec<(UserId, i64)>> {
    let rows = sqlx::query(
        "SELECT user_id, CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
         WHERE item_id = ? AND status IN ('pending', 'paid') GROUP BY user_id",
    )
    .bind(item.get())
    .fetch_all(executor);
    let rows = within(LONG_READ_MAX, rows).await?;
    let read = |row: &MySqlRow| Ok((row.try_get("user_id")?, row.try_get("units")?));
    let all: sqlx::Result<Vec<(i64, i64)>> = rows.iter().map(read).collect();
    Ok(all?.into_iter().filter_map(|(id, units)| Some((UserId::new(id)?, units))).collect())
}
