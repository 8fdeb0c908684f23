//! Reads the logs of sales; [`crate::receipts`] writes them.

use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::statement::{Binds, Read};
use crate::receipts::queue::NOW;
use sale_log::{Salt, Sums};
use shop_domain::ItemId;
use shop_domain::audit::LogFigures;

/// The row of a log.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Salts the names of orders and buyers.
    pub secret: String,
    pub size: u64,
    pub frontier: String,
    pub units: i64,
    pub orders: i64,
    pub refusals: i64,
    /// The time of the last head, in microseconds since 1970.
    pub signed_at: i64,
    pub ended_for: Option<OffsetDateTime>,
}

impl LogRow {
    /// What names orders and buyers; `None` if the row is damaged.
    #[must_use]
    pub fn salt(&self) -> Option<Salt> {
        Some(Salt::of_secret(&hex::decode(&self.secret).ok()?.try_into().ok()?))
    }
}

from_row!(LogRow { secret, size, frontier, units, orders, refusals, signed_at, ended_for });

/// A batch of entries, and the signed head behind them.
#[derive(Clone, Debug)]
pub struct BatchRow {
    pub first_position: u64,
    pub size: u64,
    /// The nodes of the tree before this batch.
    pub frontier: String,
    /// One entry a line.
    pub entries: String,
    pub root: String,
    pub signed_at: i64,
    pub units: i64,
    pub orders: i64,
    pub refusals: i64,
    pub public_key: String,
    pub signature: String,
}

from_row!(BatchRow {
    first_position,
    size,
    frontier,
    entries,
    root,
    signed_at,
    units,
    orders,
    refusals,
    public_key,
    signature,
});

/// Finds the log of an item.
pub async fn find(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Option<LogRow>> {
    let statement = format!("SELECT {} FROM receipt_logs WHERE item_id = ?", LogRow::COLUMNS);
    sqlx::query_as(&statement).bind(item.get()).first(from).await
}

/// Reads the last batch of a log.
pub async fn last(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Option<BatchRow>> {
    let statement = format!(
        "SELECT {} FROM receipt_batches WHERE item_id = ? ORDER BY first_position DESC LIMIT 1",
        BatchRow::COLUMNS
    );
    sqlx::query_as(&statement).bind(item.get()).first(from).await
}

/// Reads the next batches of a log from a position on, at most `count`.
pub async fn batches(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
    position: u64,
    count: u32,
) -> sqlx::Result<Vec<BatchRow>> {
    let statement = format!(
        "SELECT {} FROM receipt_batches WHERE item_id = ? AND first_position >= ? \
         ORDER BY first_position LIMIT ?",
        BatchRow::COLUMNS
    );
    sqlx::query_as(&statement).binds((item.get(), position, count)).all(from).await
}

/// Lists the keys that have signed heads of a log.
pub async fn keys(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Vec<String>> {
    let statement = "SELECT public_key FROM receipt_batches WHERE item_id = ? \
         GROUP BY public_key ORDER BY MIN(first_position)";
    sqlx::query_scalar(statement).bind(item.get()).all(from).await
}

/// Finds the batch that has an entry with this name, among those that were signed from `since` to `until`, in microseconds
/// since 1970.
pub async fn with_entry(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
    name: &str,
    (since, until): (i64, i64),
) -> sqlx::Result<Option<BatchRow>> {
    let statement = format!(
        "SELECT {} FROM receipt_batches WHERE item_id = ? AND signed_at BETWEEN ? AND ? \
         AND LOCATE(?, entries) > 0 ORDER BY signed_at LIMIT 1",
        BatchRow::COLUMNS
    );
    sqlx::query_as(&statement).binds((item.get(), since, until, name)).first(from).await
}

/// Compares a log, and what waits for it, with the orders of its item; `None` when it has no log.
pub(crate) async fn figures(
    connection: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Option<LogFigures>> {
    let statement = format!(
        "SELECT units, orders, CAST({NOW} - delay_seconds * 1000000 AS SIGNED), size, \
         (SELECT CAST(COALESCE(SUM(size - first_position), 0) AS SIGNED) FROM receipt_batches AS batches \
          WHERE batches.item_id = receipt_logs.item_id), \
         (SELECT COUNT(*) FROM orders WHERE orders.item_id = receipt_logs.item_id AND status IN ('pending', 'paid')) \
         FROM receipt_logs WHERE item_id = ?"
    );
    let log: Option<(i64, i64, i64, u64, i64, i64)> =
        sqlx::query_as(&statement).bind(item.get()).first(&mut *connection).await?;
    let Some((units, orders, due, size, entries, orders_live)) = log else { return Ok(None) };
    let mut sums = Sums { units, orders, refusals: 0 };
    let mut overdue = 0;
    let waiting: Vec<(i64, String)> =
        sqlx::query_as("SELECT told_at, entries FROM receipt_queue WHERE item_id = ? ORDER BY id")
            .bind(item.get())
            .all(connection)
            .await?;
    for (told_at, lines) in waiting {
        overdue += i64::from(told_at < due);
        lines.lines().for_each(|line| sums.add(line));
    }
    let Sums { units, orders, .. } = sums;
    let is_whole = u64::try_from(entries) == Ok(size);
    Ok(Some(LogFigures { units, orders, orders_live, overdue, is_whole }))
}

/// Waits until nobody appends to the log of an item.
pub(crate) async fn wait_for_appender(
    connection: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<()> {
    let lock = "SELECT 1 FROM receipt_logs WHERE item_id = ? FOR UPDATE";
    let _: Option<i64> = sqlx::query_scalar(lock).bind(item.get()).first(connection).await?;
    Ok(())
}
