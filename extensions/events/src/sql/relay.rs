//! Moves events from the outbox into the log, which numbers them.

use std::time::Duration;

use failpoint::failpoint;
use sqlx::{MySqlConnection, QueryBuilder};
use tokio_util::sync::CancellationToken;

use super::event_log::LoggedEvent;
use ledger::rows::items::datetime;
use mysql_connection::replication::leads_to_vitess;
use mysql_connection::statement::{Binds, Read, Write, in_list};
use mysql_connection::{Database, transact};

/// Rows that one transaction moves, and where they pass through this program.
const MOVED_MAX: u64 = 256;
const MOVED_BY_HAND_MAX: u64 = 64;

/// Moves rows from the outbox into the log until `stop` fires.
pub async fn run_relay(pool: Database, poll: Duration, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(poll)).await.is_some() {
        loop {
            match move_from_outbox(&pool).await {
                Ok(true) if !stop.is_cancelled() => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "events not moved into the log; the next run tries again");
                    break;
                }
            }
        }
    }
}

/// Moves at most 256 rows from the outbox into the log, and returns whether there may be more. While
/// another instance moves rows, it moves none.
///
/// # Errors
/// The database's; the next call does what this one has left.
async fn move_from_outbox(pool: &Database) -> sqlx::Result<bool> {
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
            .first(&mut **transaction)
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
                .run(&mut **transaction)
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
    .changed(&mut *connection)
    .await?;
    sqlx::query(
        // By key: a short table would be read whole, and rows of purchases that are not committed waited for.
        "DELETE outbox FROM event_log STRAIGHT_JOIN outbox FORCE INDEX (PRIMARY) \
         ON outbox.seq = event_log.outbox_seq WHERE event_log.position > ?",
    )
    .bind(last)
    .run(connection)
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
