//! The log of events: the rows of the outbox in their final order.
//!
//! A reader that follows the numbers of the outbox would miss events, since a transaction with a
//! smaller number may commit later. So one instance at a time moves committed rows from the outbox
//! into the log and numbers them there. Who has read the log up to a position has missed nothing.

use sqlx::{MySqlConnection, QueryBuilder};
use time::OffsetDateTime;

use crate::failover::replication::leads_to_vitess;
use crate::rows::item::items::datetime;
use crate::sql::statement::{Binds, Read, Write, in_list};
use crate::sql::{Database, transact};

/// Rows that one transaction moves, and where they pass through this program.
const MOVED_MAX: u64 = 256;
const MOVED_BY_HAND_MAX: u64 = 64;

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

/// Moves at most 256 rows from the outbox into the log, and returns whether there may be more. While
/// another instance moves rows, it moves none.
///
/// # Errors
/// The database's; the next call does what this one has left.
pub async fn move_from_outbox(pool: &Database) -> sqlx::Result<bool> {
    let waiting: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM outbox LIMIT 1").first(pool).await?;
    if waiting.is_none() {
        return Ok(false);
    }
    let moved = transact(pool, |transaction| {
        Box::pin(async move {
            // On an engine that accepts SKIP LOCKED and locks nothing, the key of the log stops the
            // second instance.
            let last: Option<i64> = sqlx::query_scalar(
                "SELECT last_position FROM event_relay WHERE id = 1 FOR UPDATE SKIP LOCKED",
            )
            .fetch_optional(&mut **transaction)
            .await?;
            let Some(last) = last else { return Ok(false) };
            let by_hand = leads_to_vitess(&mut *transaction).await?;
            let most = if by_hand { MOVED_BY_HAND_MAX } else { MOVED_MAX };
            let moved = if by_hand {
                move_by_hand(&mut *transaction, last).await?
            } else {
                move_in_server(&mut *transaction, last).await?
            };
            sqlx::query("UPDATE event_relay SET last_position = last_position + ? WHERE id = 1")
                .bind(moved)
                .execute(&mut **transaction)
                .await?;
            failpoint!("events-moved");
            Ok(moved == most)
        })
    });
    moved.await
}

/// Moves rows behind the position `last` without reading them; returns how many.
async fn move_in_server(connection: &mut MySqlConnection, last: i64) -> sqlx::Result<u64> {
    let moved = sqlx::query(
        // The rows are numbered apart from their data, which no temporary table should hold.
        "INSERT INTO event_log (position, outbox_seq, id, type, payload, created_at) \
         SELECT ? + numbered.place, outbox.seq, id, type, payload, created_at FROM \
         (SELECT seq, ROW_NUMBER() OVER (ORDER BY seq) AS place FROM outbox \
          ORDER BY seq LIMIT ?) AS numbered JOIN outbox ON outbox.seq = numbered.seq",
    )
    .binds((last, MOVED_MAX))
    .execute(&mut *connection)
    .await?
    .rows_affected();
    sqlx::query(
        // By key: a short table would be read whole, and rows of purchases that are not committed waited for.
        "DELETE outbox FROM event_log STRAIGHT_JOIN outbox FORCE INDEX (PRIMARY) \
         ON outbox.seq = event_log.outbox_seq WHERE event_log.position > ?",
    )
    .bind(last)
    .execute(connection)
    .await?;
    Ok(moved)
}

/// Moves rows that may lie in shards, to the log that lies beside them; returns how many.
///
/// Only committed rows are read, without a lock: a purchase that is not committed delays no event of others, and a
/// later call finds its row. With a row, a shard shows all that was committed before that row was written, so the
/// events of an item keep their order.
///
/// Then these rows are locked by their keys, which waits for nobody but another relay. A commit of several shards comes
/// to each at its own time: rows that another instance has moved a moment ago are gone then. SKIP LOCKED would pass
/// over the rows of an instance that was killed, and later events would come before them.
async fn move_by_hand(connection: &mut MySqlConnection, last: i64) -> sqlx::Result<u64> {
    let mut rows: Vec<LoggedEvent> = sqlx::query_as(
        "SELECT seq AS position, id, type, payload, created_at FROM outbox ORDER BY seq LIMIT ?",
    )
    .bind(MOVED_BY_HAND_MAX)
    .all(&mut *connection)
    .await?;
    let seen: Vec<i64> = rows.iter().map(|row| row.position).collect();
    let Some((places, numbers)) = in_list(&seen) else { return Ok(0) };
    let numbers: Vec<i64> = numbers.collect();
    // Without the hint, here and below, a short table is read whole, and the rows of purchases are waited for.
    let lock = format!(
        "SELECT seq, id FROM outbox FORCE INDEX (PRIMARY) WHERE seq IN ({places}) FOR UPDATE"
    );
    let query = numbers.iter().fold(sqlx::query_scalar(&lock), |query, number| query.bind(*number));
    let locked: Vec<i64> = query.all(&mut *connection).await?;
    rows.retain(|row| locked.contains(&row.position));
    if rows.is_empty() {
        return Ok(0);
    }
    let mut insert = QueryBuilder::new(
        "INSERT INTO event_log (position, outbox_seq, id, type, payload, created_at) ",
    );
    insert.push_values((last + 1..).zip(&rows), |mut row, (position, moved)| {
        row.push_bind(position).push_bind(moved.position).push_bind(&moved.id);
        row.push_bind(&moved.kind).push_bind(&moved.payload).push_bind(datetime(moved.created_at));
    });
    insert.build().persistent(false).run(&mut *connection).await?;
    let delete = format!("DELETE /*+ INDEX(outbox PRIMARY) */ FROM outbox WHERE seq IN ({places})");
    let query = numbers.iter().fold(sqlx::query(&delete), |query, number| query.bind(*number));
    query.run(connection).await?;
    Ok(rows.len() as u64)
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
