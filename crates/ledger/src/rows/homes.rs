//! The home ledger's table of where each item lives.

use std::collections::HashMap;

use crate::Database;
use sqlx::{MySqlConnection, MySqlExecutor};

use super::statement::{Read, in_list, new_id};
use shop_domain::{ItemId, ShardId};

/// Where an item lives: its ledger and its epoch. An item without a row lives in the home ledger, and
/// never moved.
pub type Row = (ShardId, u64);

/// Reads where several items live, with one statement. Items without a row are left out.
pub async fn find_several(
    executor: impl MySqlExecutor<'_>,
    ids: &[ItemId],
) -> sqlx::Result<HashMap<ItemId, Row>> {
    let Some((places, ids)) = in_list(ids) else { return Ok(HashMap::new()) };
    let statement =
        format!("SELECT item_id, shard, epoch FROM item_homes WHERE item_id IN ({places})");
    let mut query = sqlx::query_as(&statement);
    for id in ids {
        query = query.bind(id.get());
    }
    let rows: Vec<(ItemId, ShardId, u64)> = query.all(executor).await?;
    Ok(rows.into_iter().map(|(id, shard, epoch)| (id, (shard, epoch))).collect())
}

/// Makes the id of a new item that will live in `shard`.
pub async fn insert(connection: &mut MySqlConnection, shard: ShardId) -> sqlx::Result<ItemId> {
    let made = sqlx::query("INSERT INTO item_homes (shard) VALUES (?)")
        .bind(shard.get())
        .execute(connection)
        .await?;
    new_id(&made, ItemId::new)
}

/// Makes the next ids begin behind those of items without a row, which an older build has made. The home
/// ledger alone has such items.
pub async fn skip_older_items(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT IGNORE INTO item_homes (item_id, shard) \
         SELECT MAX(id), 0 FROM items HAVING MAX(id) IS NOT NULL",
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the items that each ledger but the home ledger has, by the home ledger's table.
pub async fn count(pool: &Database) -> sqlx::Result<HashMap<ShardId, i64>> {
    let rows: Vec<(u16, i64)> =
        sqlx::query_as("SELECT shard, COUNT(*) FROM item_homes WHERE shard > 0 GROUP BY shard")
            .all(pool)
            .await?;
    let read = |(shard, items)| Some((ShardId::new(shard)?, items));
    Ok(rows.into_iter().filter_map(read).collect())
}

/// Counts the items of all ledgers, those of an older build too, which have no row in the home ledger's table.
pub async fn count_all(pool: &Database) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT (SELECT COUNT(*) FROM item_homes) + (SELECT COUNT(*) FROM items \
         WHERE NOT EXISTS (SELECT 1 FROM item_homes WHERE item_homes.item_id = items.id))",
    )
    .one(pool)
    .await
}

/// Counts the items of a ledger.
pub async fn count_items(pool: &Database) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT COUNT(*) FROM items").one(pool).await
}

/// An item that a service with the home ledger alone cannot sell: it lives elsewhere, or has moved. `None`
/// when there is none.
pub async fn find_moved(pool: &Database) -> sqlx::Result<Option<ItemId>> {
    sqlx::query_scalar(
        "SELECT item_id FROM item_homes WHERE shard > 0 OR epoch > 1 ORDER BY item_id LIMIT 1",
    )
    .first(pool)
    .await
}

/// The newest items of a ledger, at most `limit`.
pub async fn newest_items(pool: &Database, limit: u32) -> sqlx::Result<Vec<ItemId>> {
    sqlx::query_scalar("SELECT id FROM items ORDER BY id DESC LIMIT ?").bind(limit).all(pool).await
}

/// Counts the moves of items so far, and those of them that are under way.
pub async fn count_moves(pool: &Database) -> sqlx::Result<(i64, i64)> {
    sqlx::query_as(
        "SELECT COUNT(*), CAST(COALESCE(SUM(ended_at IS NULL), 0) AS SIGNED) FROM item_moves",
    )
    .one(pool)
    .await
}
