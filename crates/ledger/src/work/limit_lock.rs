//! The locks of a buyer's limits by a transaction that has permits of several items: it waits for none of them. A
//! purchase of the buyer has a limit while it waits for the stock row of its item.

use sqlx::MySqlConnection;

use mysql_connection::Fault;
use mysql_connection::statement::{Binds, Read, in_list};
use shop_domain::{ItemId, LimitGroupId, Order, UserId};

/// The tables of the limits, each with the column of the item or group.
pub(crate) const OF_ITEMS: [&str; 2] = ["buyer_limits", "item_id"];
pub(crate) const OF_GROUPS: [&str; 2] = ["group_limits", "group_id"];

/// Locks a buyer's limit of the item or group `id`, if it exists; `false` when another transaction has it, or has made
/// it and is not committed. The caller then rolls back.
///
/// # Errors
/// The database's.
pub(crate) async fn try_lock(
    transaction: &mut MySqlConnection,
    [table, column]: [&str; 2],
    id: i64,
    buyer: UserId,
) -> sqlx::Result<bool> {
    // SKIP LOCKED would not tell a limit that another transaction has just made from one that does not exist.
    let statement = format!(
        "SELECT {column} FROM {table} WHERE {column} = ? AND user_id = ? FOR UPDATE NOWAIT"
    );
    let locked: sqlx::Result<Option<i64>> =
        sqlx::query_scalar(&statement).binds((id, buyer.get())).first(transaction).await;
    match locked {
        Ok(_) => Ok(true),
        Err(error) if Fault::of(&error) == Fault::Transient => Ok(false),
        Err(error) => Err(error),
    }
}

/// Locks the limits in which the units of an order are counted. Returns the item of one that another transaction has,
/// `None` for a group: the caller then rolls back, or leaves out the order and waits for nothing.
///
/// # Errors
/// The database's.
pub(crate) async fn lock_of_order(
    transaction: &mut MySqlConnection,
    order: &Order,
) -> sqlx::Result<Result<(), Option<ItemId>>> {
    let buyer = order.user_id;
    let items: Vec<i64> = order.lines().map(|line| line.item_id.get()).collect();
    if let Some(item) = lock_some(transaction, OF_ITEMS, buyer, &items).await? {
        return Ok(Err(ItemId::new(item)));
    }
    let groups = order.lines().filter_map(|line| line.limit_group).map(LimitGroupId::get);
    let groups: Vec<i64> = groups.collect();
    let taken = lock_some(transaction, OF_GROUPS, buyer, &groups).await?;
    Ok(taken.map_or(Ok(()), |_| Err(None)))
}

/// Locks the free limits of one table, and returns the first one that another transaction has.
async fn lock_some(
    transaction: &mut MySqlConnection,
    table: [&str; 2],
    buyer: UserId,
    ids: &[i64],
) -> sqlx::Result<Option<i64>> {
    let locked = read(transaction, table, buyer, ids, "FOR UPDATE SKIP LOCKED").await?;
    // Compared with those that exist: lab items without an arbiter have none.
    let existing = read(transaction, table, buyer, ids, "").await?;
    Ok(existing.into_iter().find(|id| !locked.contains(id)))
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
        "SELECT {column}, bought FROM {table} FORCE INDEX (PRIMARY) \
         WHERE user_id = ? AND {column} IN ({places}) {locking}"
    );
    let select = sqlx::query_scalar(&statement).bind(buyer.get());
    padded.fold(select, |select, id| select.bind(id)).all(transaction).await
}
