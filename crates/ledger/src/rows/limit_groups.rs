//! Groups of items that share a limit. The counts of their buyers are written by the arbiter.

use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::statement::{Binds, Read, new_id};
use shop_domain::{ItemId, LimitGroup, LimitGroupId};

/// The most groups of a ledger.
pub const GROUPS_MAX: usize = 1_000;

/// Inserts a group, and returns it.
pub async fn insert(
    transaction: &mut MySqlConnection,
    name: &str,
    per_buyer_limit: u32,
    now: OffsetDateTime,
) -> sqlx::Result<LimitGroup> {
    let inserted = sqlx::query(
        "INSERT INTO limit_groups (name, per_buyer_limit, created_at) VALUES (?, ?, ?)",
    )
    .binds((name, per_buyer_limit, now))
    .execute(transaction)
    .await?;
    let id = new_id(&inserted, LimitGroupId::new)?;
    Ok(LimitGroup { id, name: name.to_owned(), per_buyer_limit })
}

/// Lists all groups, oldest first.
pub async fn list(executor: impl MySqlExecutor<'_>) -> sqlx::Result<Vec<LimitGroup>> {
    sqlx::query_as("SELECT id, name, per_buyer_limit FROM limit_groups ORDER BY id LIMIT ?")
        .bind(GROUPS_MAX as u64)
        .all(executor)
        .await
}

/// Returns whether there is such a group.
pub async fn exists(executor: impl MySqlExecutor<'_>, id: LimitGroupId) -> sqlx::Result<bool> {
    let found: Option<i64> = sqlx::query_scalar("SELECT 1 FROM limit_groups WHERE id = ?")
        .bind(id.get())
        .first(executor)
        .await?;
    Ok(found.is_some())
}

/// Reads a group and locks it until the transaction ends; `None` when there is no such group.
pub async fn lock(
    transaction: &mut MySqlConnection,
    id: LimitGroupId,
) -> sqlx::Result<Option<LimitGroup>> {
    sqlx::query_as("SELECT id, name, per_buyer_limit FROM limit_groups WHERE id = ? FOR UPDATE")
        .bind(id.get())
        .first(transaction)
        .await
}

/// Writes a group of the home ledger into another one, where it is not yet. The locked copy in the home
/// ledger itself stays as it is.
pub async fn copy(transaction: &mut MySqlConnection, group: &LimitGroup) -> sqlx::Result<()> {
    let there: Option<i64> = sqlx::query_scalar("SELECT 1 FROM limit_groups WHERE id = ?")
        .bind(group.id.get())
        .fetch_optional(&mut *transaction)
        .await?;
    if there.is_some() {
        return Ok(());
    }
    sqlx::query(
        "INSERT IGNORE INTO limit_groups (id, name, per_buyer_limit, created_at) \
         VALUES (?, ?, ?, UTC_TIMESTAMP(6))",
    )
    .binds((group.id.get(), &group.name, group.per_buyer_limit))
    .execute(transaction)
    .await?;
    Ok(())
}

/// Lists the items that are or were in a group, by a ledger's rows; while an item moves, two ledgers have them.
pub async fn items(
    executor: impl MySqlExecutor<'_>,
    id: LimitGroupId,
) -> sqlx::Result<Vec<ItemId>> {
    sqlx::query_scalar("SELECT item_id FROM limit_group_items WHERE group_id = ?")
        .bind(id.get())
        .all(executor)
        .await
}

/// Lists the groups that an item is or was in.
pub async fn of_item(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Vec<LimitGroupId>> {
    sqlx::query_scalar("SELECT group_id FROM limit_group_items WHERE item_id = ?")
        .bind(item.get())
        .all(executor)
        .await
}

/// Notes that an item belongs to a group, for the audit.
pub async fn add_item(
    transaction: &mut MySqlConnection,
    group: LimitGroupId,
    item: ItemId,
) -> sqlx::Result<()> {
    sqlx::query("INSERT IGNORE INTO limit_group_items (group_id, item_id) VALUES (?, ?)")
        .binds((group.get(), item.get()))
        .execute(transaction)
        .await?;
    Ok(())
}
