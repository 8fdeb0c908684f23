//! The locks of stock rows outside of a purchase. Each takes the item's permit.

use sqlx::MySqlConnection;

use super::item_permit::{ItemPermit, ItemPermits};
use mysql_connection::statement::{Read, in_list};
use mysql_connection::{Database, begin};
use shop_domain::ItemId;

/// Locks the stock row until the transaction ends, and returns the units that are available.
///
/// # Errors
/// The database's.
pub async fn lock(transaction: &mut MySqlConnection, permit: &ItemPermit) -> sqlx::Result<i64> {
    lock_how(transaction, permit, "FOR UPDATE").await.map(Option::unwrap_or_default)
}

/// Locks the stock row against everything but others who lock it shared, and returns the units that are available;
/// `None` when there is no such item.
///
/// # Errors
/// The database's.
pub async fn lock_shared(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
) -> sqlx::Result<Option<i64>> {
    lock_how(transaction, permit, "LOCK IN SHARE MODE").await
}

/// Locks the stock rows of several items: the one that was waited for alone first, and the others without
/// waiting. Otherwise a transaction would keep rows of some items from all others while it waits for a row of
/// another item. Returns the first item whose row is locked; the caller then rolls back and calls
/// [`ItemConcurrency::acquire_after`](crate::work::item_concurrency::ItemConcurrency::acquire_after).
///
/// # Errors
/// The database's.
pub(crate) async fn lock_all(
    transaction: &mut MySqlConnection,
    permits: &ItemPermits,
) -> sqlx::Result<Result<(), ItemId>> {
    let items: Vec<ItemId> = permits.items().collect();
    if items.len() < 2 {
        return Ok(Ok(()));
    }
    if let Some(awaited) = permits.awaited() {
        lock(transaction, awaited).await?;
    }
    let Some((places, padded)) = in_list(&items) else { return Ok(Ok(())) };
    let statement = format!(
        "SELECT item_id, available FROM stock FORCE INDEX (PRIMARY) WHERE item_id IN ({places}) \
         FOR UPDATE SKIP LOCKED"
    );
    let select = sqlx::query_scalar(&statement);
    let select = padded.fold(select, |select, item| select.bind(item.get()));
    let locked: Vec<ItemId> = select.all(transaction).await?;
    let missing = items.into_iter().find(|item| !locked.contains(item));
    Ok(missing.map_or(Ok(()), Err))
}

/// Waits until no transaction has the stock row, in a transaction that has nothing else.
///
/// # Errors
/// The database's; [`Fault::Transient`](mysql_connection::Fault::Transient) when the row was not free in time.
pub(crate) async fn wait_until_free(pool: &Database, permit: &ItemPermit) -> sqlx::Result<()> {
    let mut transaction = begin(pool).await?;
    if let Err(error) = lock(&mut transaction, permit).await {
        transaction.roll_back_after(&error).await;
        return Err(error);
    }
    // Nothing was written, and the lock was all that was wanted.
    let _ = transaction.rollback().await;
    Ok(())
}

async fn lock_how(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    how: &str,
) -> sqlx::Result<Option<i64>> {
    let statement = format!("SELECT available FROM stock WHERE item_id = ? {how}");
    sqlx::query_scalar(&statement).bind(permit.item().get()).first(transaction).await
}
