//! How much a buyer has of an item, read only: counting is the arbiter's.

use sqlx::{MySqlExecutor, Row};

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
        .fetch_optional(executor)
        .await?;
    row.map_or(Ok(0), |row| row.try_get::<i32, _>("bought").map(i64::from))
}
