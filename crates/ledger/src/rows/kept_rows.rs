//! The rows of items that have moved to another ledger, kept by the ledger that they left.

use crate::Database;
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::statement::{Binds, Read, Write};
use shop_domain::ItemId;

/// Rows that one statement deletes once they were kept long enough.
const DELETED_TOGETHER: u32 = 1_000;
/// Such statements in one look: the next look goes on.
const DELETIONS_MAX: u32 = 20;

/// A row that was kept.
#[derive(Clone, Debug)]
pub struct KeptRow {
    /// Rises in the order of keeping.
    pub id: i64,
    /// The table that it was in.
    pub table_name: String,
    /// A JSON object: the text of each column.
    pub content: String,
}

from_row!(KeptRow { id, table_name, content });

/// The newest move of an item that has rows here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptMove {
    /// The epoch of the move.
    pub epoch: u64,
    /// When its first rows were kept, by this ledger's clock.
    pub at: OffsetDateTime,
}

from_row!(KeptMove { epoch, at });

/// Keeps rows of a table in the transaction that deletes them: `object` makes JSON of a row, and `of_item` is
/// the condition, with the item as its one parameter.
pub async fn keep(
    transaction: &mut MySqlConnection,
    item: ItemId,
    epoch: u64,
    (object, table, of_item): (String, &str, &str),
) -> sqlx::Result<()> {
    let statement = format!(
        "INSERT INTO kept_rows (item_id, epoch, table_name, content, kept_at) \
         SELECT ?, ?, '{table}', {object}, UTC_TIMESTAMP(6) FROM {table} WHERE {of_item}"
    );
    let kept = sqlx::query(&statement).bind(item.get()).bind(epoch).bind(item.get());
    kept.persistent(false).execute(transaction).await?;
    Ok(())
}

/// Finds the newest move of an item whose rows are kept here.
pub async fn newest(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Option<KeptMove>> {
    sqlx::query_as(
        "SELECT epoch, MIN(kept_at) AS at FROM kept_rows WHERE item_id = ? \
         GROUP BY epoch ORDER BY epoch DESC LIMIT 1",
    )
    .bind(item.get())
    .first(from)
    .await
}

/// Reads rows of a move behind the row `after`, at most `limit`.
pub async fn read(
    from: impl MySqlExecutor<'_>,
    (item, epoch): (ItemId, u64),
    after: i64,
    limit: usize,
) -> sqlx::Result<Vec<KeptRow>> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    sqlx::query_as(
        "SELECT id, table_name, content FROM kept_rows \
         WHERE item_id = ? AND epoch = ? AND id > ? ORDER BY id LIMIT ?",
    )
    .binds((item.get(), epoch, after, limit))
    .all(from)
    .await
}

/// Deletes rows that were kept for `hours`, and returns how many.
pub async fn delete_older(pool: &Database, hours: u32) -> sqlx::Result<u64> {
    let mut all = 0;
    for _ in 0..DELETIONS_MAX {
        let deleted = sqlx::query(
            "DELETE FROM kept_rows WHERE kept_at < UTC_TIMESTAMP(6) - INTERVAL ? HOUR LIMIT ?",
        )
        .binds((hours, DELETED_TOGETHER))
        .changed(pool)
        .await?;
        let rows = deleted;
        all += rows;
        if rows < u64::from(DELETED_TOGETHER) {
            break;
        }
    }
    Ok(all)
}
