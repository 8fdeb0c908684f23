//! The ledger's lists of the contents of Redis: the items with a counter, and the items with a queue.

use std::time::Duration;

use sqlx::QueryBuilder;

use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, confirmed};
use shop_domain::{ArbiterMode, ItemId};

/// The layout of an item's counter in Redis. Each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterLayout {
    /// One key for an item.
    Whole,
    /// The units of an item split over several keys.
    Split,
}

impl CounterLayout {
    /// The table of the ledger that lists such items.
    pub fn table(self) -> &'static str {
        match self {
            Self::Whole => "redis_counters",
            Self::Split => "redis_buckets",
        }
    }

    /// Reads the number of the counter's last load.
    pub async fn epoch(self, pool: &Database, item: ItemId) -> sqlx::Result<Option<u64>> {
        let statement = format!("SELECT epoch FROM {} WHERE item_id = ?", self.table());
        sqlx::query_scalar(&statement).bind(item.get()).first(pool).await
    }

    /// Sets the number of the counter's load to `next` if it still is `known`; `false` when another instance was first.
    pub async fn claim_epoch(
        self,
        pool: &Database,
        item: ItemId,
        (known, next): (Option<u64>, u64),
    ) -> sqlx::Result<bool> {
        let table = self.table();
        let statement = match known {
            None => format!("INSERT IGNORE INTO {table} (epoch, item_id) VALUES (?, ?)"),
            Some(_) => format!("UPDATE {table} SET epoch = ? WHERE item_id = ? AND epoch = ?"),
        };
        let mut query = sqlx::query(&statement).bind(next).bind(item.get());
        if let Some(known) = known {
            query = query.bind(known);
        }
        Ok(query.changed(pool).await? == 1)
    }

    /// Lists items with a counter behind the item `after`, at most `limit`.
    pub async fn list(
        self,
        pool: &Database,
        sales: Sales,
        after: i64,
        limit: u32,
    ) -> sqlx::Result<Vec<CountedItem>> {
        let table = self.table();
        let condition = sales.condition();
        let statement = format!(
            // With CAST, because a vtgate before shards announces a comparison wider than it sends it.
            "SELECT stock.item_id, available, version, arbiter, epoch, \
             CAST(items.ends_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY AS SIGNED) AS is_long_over FROM {table} \
             JOIN stock ON stock.item_id = {table}.item_id \
             JOIN items ON items.id = {table}.item_id \
             WHERE {table}.item_id > ? AND {condition} ORDER BY {table}.item_id LIMIT ?"
        );
        sqlx::query_as(&statement).bind(after).bind(limit).all(pool).await
    }
}

/// Which sales are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sales {
    /// Sales that are not over, by the database's clock.
    Open,
    /// Sales that are over, with an arbiter: without one no counter is repaired.
    Ended,
}

impl Sales {
    /// The SQL condition. It names the kinds to use the index over kind and end.
    fn condition(self) -> &'static str {
        match self {
            Self::Open => "items.kind IN ('shop', 'lab') AND items.ends_at > UTC_TIMESTAMP(6)",
            Self::Ended => "items.ends_at <= UTC_TIMESTAMP(6) AND items.arbiter = 'on'",
        }
    }
}

/// An item with a counter, as the ledger has it.
#[derive(Clone, Copy, Debug)]
pub struct CountedItem {
    pub item: ItemId,
    pub available: i64,
    pub version: u64,
    /// `None` for a mode that this program does not know: a newer one may have written it.
    pub arbiter: Option<ArbiterMode>,
    /// The number of the counter's last load.
    pub epoch: u64,
    /// Whether the sale has been over for a day, by the database's clock.
    pub is_long_over: bool,
}

from_row!(CountedItem {
    item: "item_id", available, version,
    arbiter as String => |text| ArbiterMode::parse(&text),
    epoch, is_long_over,
});

/// Lists items with a queue behind the item `after`, at most `limit`.
pub async fn queues(pool: &Database, after: i64, limit: usize) -> sqlx::Result<Vec<ItemId>> {
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    sqlx::query_scalar(
        "SELECT item_id FROM redis_queues WHERE item_id > ? ORDER BY item_id LIMIT ?",
    )
    .binds((after, limit))
    .all(pool)
    .await
}

/// Puts an item on the list of queues, and returns how long it has been there.
pub async fn open_queue(pool: &Database, item: ItemId) -> sqlx::Result<Duration> {
    let listed = sqlx::query(
        "INSERT IGNORE INTO redis_queues (item_id, opened_at) VALUES (?, UTC_TIMESTAMP(6))",
    );
    confirmed(pool, listed.bind(item.get()).run(pool)).await?;
    let age_us: i64 = sqlx::query_scalar(
        "SELECT TIMESTAMPDIFF(MICROSECOND, opened_at, UTC_TIMESTAMP(6)) FROM redis_queues \
         WHERE item_id = ?",
    )
    .bind(item.get())
    .one(pool)
    .await?;
    // Not negative, so that a clock that was set back does not lengthen a wait.
    Ok(Duration::from_micros(u64::try_from(age_us).unwrap_or_default()))
}

/// Removes items from the list of queues whose sale has been over for `seconds`, by the database's clock, because
/// the list is shared.
pub async fn remove_queues(pool: &Database, items: &[ItemId], seconds: u32) -> sqlx::Result<()> {
    let mut delete = QueryBuilder::new(
        "DELETE FROM redis_queues WHERE EXISTS (SELECT 1 FROM items WHERE id = item_id \
         AND ends_at < UTC_TIMESTAMP(6) - INTERVAL ",
    );
    delete.push_bind(seconds).push(" SECOND) AND item_id IN");
    delete.push_tuples(items, |mut row, item| {
        row.push_bind(item.get());
    });
    delete.build().run(pool).await
}
