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

/// Locks limits of one table, up to the first that does not exist: an order counts in one after the other, so while it waits
/// for that one it must have no later one. Returns the first that another transaction has.
async fn lock_some(
    transaction: &mut MySqlConnection,
    table: [&str; 2],
    buyer: UserId,
    ids: &[i64],
) -> sqlx::Result<Option<i64>> {
    let existing = read(transaction, table, buyer, ids, "").await?;
    let exists = |id: &i64| existing.contains(id);
    let wanted: Vec<i64> = ids.iter().copied().take_while(exists).collect();
    let locked = read(transaction, table, buyer, &wanted, "FOR UPDATE SKIP LOCKED").await?;
    Ok(wanted.into_iter().find(|id| !locked.contains(id)))
}

async fn read(
    transaction: &mut MySqlConnection,
    [table, column]: [&str; 2],
    buyer: UserId,
    ids: &[i64],
    locking: &str,
) -> sqlx::Result<Vec<i64>> {
    let Some((places, padded)) = in_list(ids) else { return Ok(Vec::new()) };
    let statement = format!(
        "SELECT {column} FROM {table} FORCE INDEX (PRIMARY) \
         WHERE user_id = ? AND {column} IN ({places}) {locking}"
    );
    let select = sqlx::query_scalar(&statement).bind(buyer.get());
    padded.fold(select, |select, id| select.bind(id)).all(transaction).await
}
