//! The units of restocks, which come into the stock in parts while a long line takes them.

use sqlx::MySqlConnection;

use crate::rows::waiting_list;
use crate::sql::statement::{Binds, Write};
use shop_domain::{ItemId, OrderId};

/// Units that one transaction adds while more buyers than that wait, at most twice as many at the end: the stock row, for
/// which all others of the item wait, is held for a few hundredths of a second.
const PART_MAX: i64 = 1_000;

/// Adds the units of the oldest restock that are not in the stock yet, or the next part of them. The caller has locked the
/// stock row, and offers what was added in the same transaction: so no purchase passes the line. Returns the units, and
/// the version of the stock that this made.
pub(super) async fn add_next(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Option<(i64, u64)>> {
    let oldest: Option<(OrderId, i64)> = sqlx::query_as(
        "SELECT id, waiting FROM restocks WHERE item_id = ? AND waiting > 0 ORDER BY id LIMIT 1",
    )
    .bind(item.get())
    .fetch_optional(&mut *transaction)
    .await?;
    let Some((id, waiting)) = oldest else { return Ok(None) };
    let part_max = PART_MAX.unsigned_abs();
    let buyers = waiting_list::length_up_to(&mut *transaction, item, part_max + 1).await?;
    // Never a small rest, which would be too few for friends who are first in the line.
    let is_in_parts = buyers > part_max && waiting >= 2 * PART_MAX;
    let units = if is_in_parts { PART_MAX } else { waiting };
    let taken = sqlx::query(
        "UPDATE restocks SET waiting = waiting - ? WHERE id = ? AND item_id = ? AND waiting >= ?",
    )
    .binds((units, id.to_string(), item.get(), units))
    .changed(&mut *transaction)
    .await?;
    let added = sqlx::query(
        "UPDATE stock SET total = total + ?, available = available + ?, \
         version = LAST_INSERT_ID(version + 1) WHERE item_id = ?",
    )
    .binds((units, units, item.get()))
    .noted(transaction)
    .await?;
    match added {
        Some(version) if taken == 1 => Ok(Some((units, version))),
        _ => Err(sqlx::Error::RowNotFound),
    }
}
