//! Reads waiting lists; only the arbiter writes them.

use std::collections::HashSet;

use sqlx::MySqlExecutor;
use time::OffsetDateTime;

use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read};
use mysql_connection::{Database, within};
use shop_domain::{ItemId, Place, UserId};

const COLUMNS: &str = Place::COLUMNS;

/// Whether units of `stock` are available that are enough for a buyer who waits, or for a party.
const IS_IDLE: &str = "(stock.available > 0 AND EXISTS (SELECT 1 FROM waiting_list AS own \
     WHERE own.status = 'waiting' AND own.item_id = stock.item_id \
       AND own.party_size <= stock.available))";

/// Items with something to do that one read returns.
const ITEMS_MAX: usize = 1_000;

/// Finds a buyer's place in a list, if it is waiting or offered.
pub async fn live(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<Option<Place>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM waiting_list WHERE item_id = ? AND user_id = ? AND live = 1"
    );
    sqlx::query_as(&statement).bind(item.get()).bind(buyer.get()).first(executor).await
}

/// Finds the last place of a buyer in a list, whatever became of it.
pub async fn last(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<Option<Place>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM waiting_list WHERE item_id = ? AND user_id = ? \
         ORDER BY place DESC LIMIT 1"
    );
    sqlx::query_as(&statement).bind(item.get()).bind(buyer.get()).first(executor).await
}

/// Counts the buyers in front of a place.
pub async fn ahead(executor: impl MySqlExecutor<'_>, place: &Place) -> sqlx::Result<u64> {
    count(executor, place.item, "<", place.number).await
}

/// Counts the buyers who wait for an item, and finds the last place.
pub async fn length(executor: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<(u64, i64)> {
    let counted = sqlx::query_as(
        "SELECT COUNT(*), COALESCE(MAX(place), 0) FROM waiting_list \
         WHERE item_id = ? AND status = 'waiting'",
    );
    let (waiting, last): (i64, i64) = counted.bind(item.get()).one(executor).await?;
    Ok((waiting.unsigned_abs(), last))
}

/// Counts the buyers who wait for an item, at most `most`.
pub async fn length_up_to(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    most: u64,
) -> sqlx::Result<u64> {
    let waiting: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM (SELECT place FROM waiting_list \
         WHERE item_id = ? AND status = 'waiting' LIMIT ?) AS line",
    )
    .binds((item.get(), most))
    .one(executor)
    .await?;
    Ok(waiting.unsigned_abs())
}

/// Counts the buyers who wait behind a place.
pub async fn joined_after(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    place: i64,
) -> sqlx::Result<u64> {
    count(executor, item, ">", place).await
}

/// Counts the buyers who wait on one `side` of a place: `<` is in front of it, `>` behind it.
async fn count(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    side: &str,
    place: i64,
) -> sqlx::Result<u64> {
    let statement = format!(
        "SELECT COUNT(*) FROM waiting_list WHERE item_id = ? AND status = 'waiting' AND place {side} ?"
    );
    let count: i64 =
        sqlx::query_scalar(&statement).binds((item.get(), place)).one(executor).await?;
    Ok(count.unsigned_abs())
}

/// Lists the items whose lines have something to end or to offer at `now`. In a pause of a sale that is drawn nothing ends.
pub async fn items_to_tend(pool: &Database, now: OffsetDateTime) -> sqlx::Result<Vec<ItemId>> {
    let drawn = "SELECT 1 FROM draws WHERE draws.item_id";
    let over = format!(
        "((items.paused AND NOT EXISTS ({drawn} = items.id)) \
          OR items.offer_seconds = 0 OR items.ends_at <= ?)"
    );
    let statement = format!(
        "SELECT line.item_id FROM \
           (SELECT DISTINCT item_id FROM waiting_list \
            WHERE status = 'offered' AND offer_expires_at <= UTC_TIMESTAMP(6)) AS line \
           WHERE NOT EXISTS ({drawn} = line.item_id AND draws.paused_at IS NOT NULL) \
         UNION ALL SELECT line.item_id FROM \
           (SELECT DISTINCT item_id FROM waiting_list WHERE status = 'waiting') AS line \
           JOIN stock ON stock.item_id = line.item_id JOIN items ON items.id = line.item_id \
           WHERE {IS_IDLE} OR {over} \
         UNION ALL SELECT line.item_id FROM \
           (SELECT DISTINCT item_id FROM waiting_list WHERE status = 'offered') AS line \
           JOIN items ON items.id = line.item_id LEFT JOIN draws ON draws.item_id = items.id \
           WHERE {over} OR (draws.paused_at IS NOT NULL AND NOT items.paused) \
         UNION ALL SELECT item_id FROM restocks WHERE waiting > 0"
    );
    let found = sqlx::query_scalar(&statement).bind(now).bind(now).fetch_all(pool);
    // Not by UNION and LIMIT: a shard of Vitess 24.0.4 refuses the one, and its planner panics at the other.
    let mut found: Vec<ItemId> = within(LONG_READ_MAX, found).await?;
    let mut seen = HashSet::new();
    found.retain(|item| seen.insert(*item));
    found.truncate(ITEMS_MAX);
    Ok(found)
}

/// Figures of all waiting lists.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// Buyers who wait.
    pub waiting: i64,
    /// Open offers.
    pub offered: i64,
    /// Units that are available at `now` although a buyer waits for them.
    pub idle: i64,
}

/// Reads the figures of all waiting lists. By two statements: Vitess takes no EXISTS in a subquery of a column.
pub async fn lines(pool: &Database, now: OffsetDateTime) -> sqlx::Result<Lines> {
    let of_each = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM waiting_list WHERE status = 'waiting') AS waiting, \
         (SELECT COUNT(*) FROM waiting_list WHERE status = 'offered') AS offered",
    );
    let of_each: (i64, i64) = within(LONG_READ_MAX, of_each.fetch_one(pool)).await?;
    let idle = format!(
        "SELECT CAST(COALESCE(SUM(stock.available), 0) AS SIGNED) FROM stock \
         JOIN items ON items.id = stock.item_id WHERE {IS_IDLE} \
         AND NOT items.paused AND items.offer_seconds > 0 AND items.ends_at > ?"
    );
    let idle = sqlx::query_scalar(&idle).bind(now).fetch_one(pool);
    let idle = within(LONG_READ_MAX, idle).await?;
    Ok(Lines { waiting: of_each.0, offered: of_each.1, idle })
}

/// Buyers who wait for an item, and its open offers.
pub async fn counts(executor: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<(i64, i64)> {
    sqlx::query_as(
        "SELECT CAST(COALESCE(SUM(status = 'waiting'), 0) AS SIGNED), \
         CAST(COALESCE(SUM(status = 'offered'), 0) AS SIGNED) FROM waiting_list \
         WHERE item_id = ? AND status IN ('waiting', 'offered')",
    )
    .bind(item.get())
    .one(executor)
    .await
}
