//! The locks of a buyer's limits by a transaction that has permits of several items: it waits for none of them. A purchase of
//! the buyer has a limit while it waits for the stock row of its item.

use sqlx::MySqlConnection;

use crate::sql::statement::{Read, in_list};
use shop_domain::{ItemId, LimitGroupId, Order, UserId};

/// Locks the limits in which the units of an order are counted, as [`lock_all`] does.
///
/// # Errors
/// The database's.
pub(crate) async fn lock_of_order(
    transaction: &mut MySqlConnection,
    order: &Order,
) -> sqlx::Result<Result<(), Option<ItemId>>> {
    let items: Vec<ItemId> = order.lines().map(|line| line.item_id).collect();
    let groups: Vec<LimitGroupId> = order.lines().filter_map(|line| line.limit_group).collect();
    lock_all(transaction, order.user_id, &items, &groups).await
}

/// Locks the limits of a buyer for some items and groups. Returns the item of one that another transaction has, `None` for
/// a group: the caller then rolls back.
///
/// # Errors
/// The database's.
pub(crate) async fn lock_all(
    transaction: &mut MySqlConnection,
    buyer: UserId,
    items: &[ItemId],
    groups: &[LimitGroupId],
) -> sqlx::Result<Result<(), Option<ItemId>>> {
    let items: Vec<i64> = items.iter().map(|item| item.get()).collect();
    if let Some(item) = lock_some(transaction, ["buyer_limits", "item_id"], buyer, &items).await? {
        return Ok(Err(ItemId::new(item)));
    }
    let groups: Vec<i64> = groups.iter().map(|group| group.get()).collect();
    let taken = lock_some(transaction, ["group_limits", "group_id"], buyer, &groups).await?;
    Ok(taken.map_or(Ok(()), |_| Err(None)))
}

/// Locks the free limits of one table, and returns the first one that another transaction has.
async fn lock_some(
    transaction: &mut MySqlConnection,
    [table, column]: [&str; 2],
    buyer: UserId,
    ids: &[i64],
) -> sqlx::Result<Option<i64>> {
    let Some((places, padded)) = in_list(ids) else { return Ok(None) };
    let padded: Vec<i64> = padded.collect();
    let rows = format!(
        "SELECT {column} FROM {table} FORCE INDEX (PRIMARY) \
         WHERE user_id = ? AND {column} IN ({places})"
    );
    let locking = format!("{rows} FOR UPDATE SKIP LOCKED");
    let locked = read(transaction, &locking, buyer, &padded).await?;
    // Compared with the rows that exist: lab items without an arbiter have none.
    let existing = read(transaction, &rows, buyer, &padded).await?;
    Ok(existing.into_iter().find(|id| !locked.contains(id)))
}

async fn read(
    transaction: &mut MySqlConnection,
    statement: &str,
    buyer: UserId,
    ids: &[i64],
) -> sqlx::Result<Vec<i64>> {
    let select = sqlx::query_scalar(statement).bind(buyer.get());
    ids.iter().fold(select, |select, id| select.bind(*id)).all(transaction).await
}
