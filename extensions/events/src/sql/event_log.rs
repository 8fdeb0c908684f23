//! The log of events: the rows of the outbox in their final order.
//!
//! A reader that follows the numbers of the outbox would miss events, since a transaction with a
//! smaller number may commit later. So [`super::relay`] moves committed rows from the outbox
//! into the log and numbers them there. Who has read the log up to a position has missed nothing.

use time::OffsetDateTime;

use mysql_connection::Database;
use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::from_row;

/// Numbers of the outbox that are counted at most.
const COUNTED_MAX: i64 = 100_000;

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Its place in the log.
    pub position: i64,
    /// Its id, to drop doubles by.
    pub id: String,
    /// Its type, such as `orders.changed`.
    pub kind: String,
    /// Its data, as JSON.
    pub payload: String,
    /// The time of the change, by the database's clock.
    pub created_at: OffsetDateTime,
}

/// The last position of the log; 0 while it was never written.
pub async fn last_position(pool: &Database) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT last_position FROM event_relay WHERE id = 1").one(pool).await
}

/// The first position that the log still has; `None` while it is empty.
pub async fn first_position(pool: &Database) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar("SELECT MIN(position) FROM event_log").one(pool).await
}

/// Reads at most `limit` events with positions from `first` to `last`, in order.
pub async fn read(
    pool: &Database,
    first: i64,
    last: i64,
    limit: u32,
) -> sqlx::Result<Vec<LoggedEvent>> {
    sqlx::query_as(
        "SELECT position, id, type, payload, created_at FROM event_log \
         WHERE position BETWEEN ? AND ? ORDER BY position LIMIT ?",
    )
    .binds((first, last, limit))
    .all(pool)
    .await
}

/// The last position that is older than `hours` and no dead letter, which stays; `None` if there is none.
pub async fn last_older_than(pool: &Database, hours: u32) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar(
        "SELECT position FROM event_log WHERE created_at < UTC_TIMESTAMP(6) - INTERVAL ? HOUR \
         AND NOT EXISTS (SELECT 1 FROM event_dead_letters \
          WHERE event_dead_letters.position = event_log.position) \
         ORDER BY created_at DESC LIMIT 1",
    )
    .bind(hours)
    .first(pool)
    .await
}

/// Deletes at most `limit` events up to the position `last`, except dead letters.
pub async fn forget(pool: &Database, last: i64, limit: u32) -> sqlx::Result<u64> {
    sqlx::query(
        "DELETE FROM event_log WHERE position <= ? AND NOT EXISTS \
         (SELECT 1 FROM event_dead_letters WHERE event_dead_letters.position = event_log.position) \
         LIMIT ?",
    )
    .binds((last, limit))
    .changed(pool)
    .await
}

/// Counts the rows of the outbox that are not in the log yet, among the next 100,000 numbers. By numbers, because with a
/// LIMIT each shard would send as many rows as all shards together may.
pub async fn waiting(pool: &Database) -> sqlx::Result<i64> {
    let first = sqlx::query_scalar("SELECT seq FROM outbox ORDER BY seq LIMIT 1").first(pool);
    let first: Option<i64> = first.await?;
    let Some(first) = first else { return Ok(0) };
    let end = first.saturating_add(COUNTED_MAX);
    sqlx::query_scalar("SELECT COUNT(*) FROM outbox WHERE seq < ?").bind(end).one(pool).await
}

from_row!(LoggedEvent { position, id, kind: "type", payload, created_at });
