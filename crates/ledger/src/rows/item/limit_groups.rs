//! Groups of items that share a limit. The counts of their buyers are written by the arbiter.

use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::{ItemId, LimitGroup, LimitGroupId};

/// The most groups.
pub const GROUPS_MAX: usize = 1_000;

/// Inserts a group, and returns it.
pub async fn insert(
    transaction: &mut MySqlConnection,
    name: &str,
    per_buyer_limit: u32,
    now: OffsetDateTime,
) -> sqlx::Result<LimitGroup> {
    let id = LimitGroupId::generate();
    sqlx::query(
        "INSERT INTO limit_groups (id, name, per_buyer_limit, created_at) VALUES (?, ?, ?, ?)",
    )
    .binds((id.get(), name, per_buyer_limit, now))
    .execute(transaction)
    .await?;
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

/// Notes that an item belongs to a group, for the audit.
pub async fn add_item(
    transaction: &mut MySqlConnection,
    group: LimitGroupId,
    item: ItemId,
) -> sqlx::Result<()> {
    sqlx::query("INSERT IGNORE INTO limit_group_items (group_id, item_id) VALUES (?, ?)")
        .binds((group.get(), item.get()))
        .run(transaction)
        .await
}
