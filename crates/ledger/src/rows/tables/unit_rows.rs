//! A row for each unit: what the strategy `mysql-unit-rows` takes.
//!
//! The table `unit_rows` has, of each item that is sold so, a row for some of the units that `stock` has left: the
//! item's *pool*, at most [`POOL_MAX`] rows. An order locks as many free rows as it has units, skips those that others
//! have locked, and deletes them; ROLLBACK frees them.
//!
//! An item without an arbiter is sold by these rows alone, without a word to the stock row. There a taken row keeps
//! its order instead of being deleted, until [`settle`] counts it in `stock` and deletes it.
//!
//! **The rule: an item never has more rows than its stock row has units left.** [`settle`] keeps it. It locks the
//! stock row first, and then counts the rows that are committed. The rows of a purchase under way are among them, and
//! its units are still in the stock row, so both figures are of one moment. Purchases lock rows first and the stock
//! row last; nobody who holds the stock row waits for a row of a unit.

use std::collections::HashSet;

use async_trait::async_trait;
use rand::seq::SliceRandom;
use sqlx::MySqlConnection;

use super::StrategyTable;
use crate::work::{RetryPolicy, nothing_was_sent};
use mysql_connection::statement::{Binds, Read, Write, in_list};
use mysql_connection::{Database, transact};
use shop_domain::{ArbiterMode, ItemId, Purchase, Quantity};

/// Rows of one item at most: so an item of a million units opens at once, and a search for a free row is short. It is
/// also the largest quantity of an order.
pub const POOL_MAX: u32 = Quantity::MAX;

/// The table, for a statement that locks rows. Without the hint the optimizer scans a small table, and the statement
/// would wait for rows that it does not want.
const BY_KEY: &str = "unit_rows FORCE INDEX (PRIMARY)";

/// The hint of a DELETE on Vitess, whose vtgate leaves out that of [`BY_KEY`] there. MariaDB reads this one as a
/// comment.
const BY_KEY_TOO: &str = "/*+ INDEX(unit_rows PRIMARY) */";

/// What becomes of the free rows of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolChange {
    /// Rows are added, up to the units left.
    Fill,
    /// Rows above the units left are removed.
    Trim,
    /// As `Trim`, as if fewer units were left by this number.
    TrimBy(i64),
    /// All rows are removed.
    Empty,
}

/// The pool of an item after [`settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPool {
    /// Units left by the stock row, those of purchases under way included.
    pub left: i64,
    /// Whether rows were added.
    pub is_filled: bool,
    /// Rows that should have been removed, but a purchase under way has locked them.
    pub kept_by_purchases: u64,
}

/// The table.
#[derive(Debug)]
pub struct UnitRows;

#[async_trait]
impl StrategyTable for UnitRows {
    fn name(&self) -> &'static str {
        "rows of units"
    }

    /// Takes a row for each unit.
    async fn take(
        &self,
        transaction: &mut MySqlConnection,
        purchase: &Purchase,
    ) -> sqlx::Result<bool> {
        let item = purchase.item.id.get();
        let wanted = purchase.quantity.units();
        // Buyers begin at different numbers, so that they meet few rows of each other.
        let first = rand::random_range(1..=POOL_MAX);
        let mut units: Vec<u32> = Vec::new();
        for (from, to) in [(first, POOL_MAX), (1, first - 1)] {
            let missing = wanted.saturating_sub(u32::try_from(units.len()).unwrap_or(u32::MAX));
            if missing > 0 && from <= to {
                let free = sqlx::query_scalar(
                    "SELECT unit FROM unit_rows FORCE INDEX (PRIMARY) \
                     WHERE item_id = ? AND unit BETWEEN ? AND ? AND order_id IS NULL \
                     ORDER BY unit LIMIT ? FOR UPDATE SKIP LOCKED",
                );
                units.extend::<Vec<u32>>(
                    free.binds((item, from, to, missing)).all(&mut *transaction).await?,
                );
            }
        }
        if units.len() < wanted as usize {
            return Ok(false);
        }
        let Some((places, units)) = in_list(&units) else { return Ok(false) };
        // The condition once more: on an engine that locks nothing, the second of two buyers changes fewer rows.
        let free = format!("WHERE item_id = ? AND order_id IS NULL AND unit IN ({places})");
        let is_off = purchase.item.arbiter == ArbiterMode::Off;
        let statement = if is_off {
            format!("UPDATE {BY_KEY} SET order_id = ? {free}")
        } else {
            format!("DELETE {BY_KEY_TOO} unit_rows FROM {BY_KEY} {free}")
        };
        let mut taken = sqlx::query(&statement);
        if is_off {
            taken = taken.bind(purchase.order_id.to_string());
        }
        let taken = units.fold(taken.bind(item), |taken, unit| taken.bind(unit));
        Ok(taken.changed(transaction).await? == u64::from(wanted))
    }

    /// The units that go must have no row, or a gate without an arbiter would sell them.
    async fn give_up(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
        units: i64,
    ) -> sqlx::Result<bool> {
        let trimmed = settle_in(transaction, item, PoolChange::TrimBy(units)).await?;
        Ok(trimmed.kept_by_purchases == 0)
    }

    async fn count(&self, connection: &mut MySqlConnection, item: ItemId) -> sqlx::Result<i64> {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM unit_rows WHERE item_id = ?");
        count.bind(item.get()).one(connection).await
    }

    /// Counts rows that are taken, removes those that are too many, and all of sales that are over.
    async fn settle(&self, pool: &Database, after: &mut i64, limit: u32) -> sqlx::Result<usize> {
        let items = sqlx::query_scalar(
            "SELECT DISTINCT item_id FROM unit_rows WHERE item_id > ? ORDER BY item_id LIMIT ?",
        );
        let items: Vec<i64> = items.binds((*after, limit)).all(pool).await?;
        let last = items.last().filter(|_| items.len() == limit as usize);
        *after = last.copied().unwrap_or(0);
        let Some((places, ids)) = in_list(&items) else { return Ok(0) };
        let statement = format!(
            "SELECT unit_rows.item_id, MAX(ends_at) <= UTC_TIMESTAMP(6) AS is_over FROM unit_rows \
             JOIN stock ON stock.item_id = unit_rows.item_id JOIN items ON items.id = unit_rows.item_id \
             WHERE unit_rows.item_id IN ({places}) GROUP BY unit_rows.item_id \
             HAVING is_over OR COUNT(unit_rows.order_id) > 0 OR COUNT(*) > MAX(available)"
        );
        let found = ids.fold(sqlx::query_as(&statement), |found, id| found.bind(id));
        let found: Vec<(ItemId, bool)> = found.all(pool).await?;
        let mut failed = None;
        for (item, is_over) in &found {
            let change = if *is_over { PoolChange::Empty } else { PoolChange::Trim };
            match settle(pool, *item, change).await {
                Ok(_) => {}
                // The ledger fails, not this item.
                Err(error) if nothing_was_sent(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, %item, "rows of units of an item not settled; a later run tries again");
                    failed = failed.or(Some(error));
                }
            }
        }
        failed.map_or(Ok(found.len()), Err)
    }
}

/// Counts taken rows in the stock row, deletes them, and changes the pool: one transaction, which may be repeated.
///
/// # Errors
/// The database's.
pub async fn settle(pool: &Database, item: ItemId, change: PoolChange) -> sqlx::Result<UnitPool> {
    let settle = || transact(pool, |transaction| Box::pin(settle_in(transaction, item, change)));
    RetryPolicy::IDEMPOTENT.run(settle).await
}

/// [`settle`] within the caller's transaction, which has locked no row of a unit.
async fn settle_in(
    transaction: &mut MySqlConnection,
    item: ItemId,
    change: PoolChange,
) -> sqlx::Result<UnitPool> {
    let available = sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ? FOR UPDATE");
    let available: Option<i64> = available.bind(item.get()).first(&mut *transaction).await?;
    let Some(available) = available else {
        return Ok(UnitPool { left: 0, is_filled: false, kept_by_purchases: 0 });
    };
    let left = available - count_taken(transaction, item).await?;
    let keep = match change {
        PoolChange::Fill | PoolChange::Trim => left,
        PoolChange::TrimBy(units) => left - units,
        PoolChange::Empty => 0,
    };
    let keep = keep.clamp(0, POOL_MAX.into()).unsigned_abs();
    let rows = UnitRows.count(transaction, item).await?.unsigned_abs();
    let mut pool = UnitPool { left, is_filled: false, kept_by_purchases: 0 };
    if rows > keep {
        pool.kept_by_purchases = rows - keep - remove(transaction, item, rows - keep).await?;
    } else if rows < keep && change == PoolChange::Fill {
        add(transaction, item, keep - rows).await?;
        pool.is_filled = true;
    }
    Ok(pool)
}

/// Counts taken rows in the stock row, and deletes them. Returns their number.
async fn count_taken(transaction: &mut MySqlConnection, item: ItemId) -> sqlx::Result<i64> {
    let taken =
        sqlx::query_scalar("SELECT unit FROM unit_rows WHERE item_id = ? AND order_id IS NOT NULL");
    let taken: Vec<u32> = taken.bind(item.get()).all(&mut *transaction).await?;
    let deleted = delete(transaction, item, &taken).await?;
    let units = i64::try_from(deleted).unwrap_or(i64::MAX);
    if units > 0 {
        let count = sqlx::query(
            "UPDATE stock SET available = available - ?, version = version + 1 WHERE item_id = ?",
        );
        count.binds((units, item.get())).run(transaction).await?;
    }
    Ok(units)
}

/// Removes free rows that no purchase has locked, and returns their number.
async fn remove(transaction: &mut MySqlConnection, item: ItemId, rows: u64) -> sqlx::Result<u64> {
    let free = sqlx::query_scalar(
        "SELECT unit FROM unit_rows FORCE INDEX (PRIMARY) WHERE item_id = ? AND order_id IS NULL \
         LIMIT ? FOR UPDATE SKIP LOCKED",
    );
    let free: Vec<u32> = free.binds((item.get(), rows)).all(&mut *transaction).await?;
    delete(transaction, item, &free).await
}

async fn delete(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: &[u32],
) -> sqlx::Result<u64> {
    let Some((places, units)) = in_list(units) else { return Ok(0) };
    let statement = format!(
        "DELETE {BY_KEY_TOO} unit_rows FROM {BY_KEY} WHERE item_id = ? AND unit IN ({places})"
    );
    let delete = sqlx::query(&statement).bind(item.get());
    units.fold(delete, |delete, unit| delete.bind(unit)).changed(transaction).await
}

/// Adds free rows. Their numbers are spread at random over all that no row has, as buyers look for them.
async fn add(transaction: &mut MySqlConnection, item: ItemId, rows: u64) -> sqlx::Result<()> {
    let used = sqlx::query_scalar("SELECT unit FROM unit_rows WHERE item_id = ?").bind(item.get());
    let used: HashSet<u32> = used.all(&mut *transaction).await?.into_iter().collect();
    let mut unused: Vec<u32> = (1..=POOL_MAX).filter(|unit| !used.contains(unit)).collect();
    unused.shuffle(&mut rand::rng());
    unused.truncate(usize::try_from(rows).unwrap_or(usize::MAX));
    unused.sort_unstable();
    let rows: Vec<String> = unused.iter().map(|unit| format!("({item}, {unit})")).collect();
    let insert = format!("INSERT INTO unit_rows (item_id, unit) VALUES {}", rows.join(", "));
    sqlx::query(&insert).persistent(false).run(transaction).await
}
