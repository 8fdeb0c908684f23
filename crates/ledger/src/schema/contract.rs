//! What an upgrade takes away: [`check`] before it begins, and [`contract`] at its end.

use sqlx::{Executor, MySqlConnection};

use super::{alter, order_indexes};
use crate::sql::statement::{Binds, Read};

/// Tables that only earlier builds use.
const TABLES: [&str; 10] = [
    "archives",
    "archived_orders",
    "archived_movements",
    "receipt_logs",
    "receipt_queue",
    "receipt_batches",
    "room_openings",
    "item_homes",
    "item_moves",
    "kept_rows",
];
/// Columns that only earlier builds use, each with its table.
const COLUMNS: [(&str, &str); 3] =
    [("stock", "archive"), ("stock", "home_epoch"), ("event_endpoints", "kind")];

/// Deletes the endpoints that were Redis streams, with what belongs to them.
const DELETE_STREAMS: [&str; 3] = [
    "DELETE FROM event_dead_letters WHERE endpoint_id IN \
     (SELECT id FROM event_endpoints WHERE kind = 'redis-stream')",
    "DELETE FROM event_replays WHERE endpoint_id IN \
     (SELECT id FROM event_endpoints WHERE kind = 'redis-stream')",
    "DELETE FROM event_endpoints WHERE kind = 'redis-stream'",
];

/// The newest migration of version 0.1.0.
const OF_FIRST_VERSION: i64 = 47;
/// Why an earlier ledger is not migrated.
const BEFORE_FIRST_VERSION: &str =
    "a build before version 0.1.0 has made this ledger; migrate it with 0.1.0 first";
/// The migration that an earlier build does not know and needs to know once these are gone.
const KNOWN_VERSION_MIN: i64 = 39;

/// Checks that version 0.1.0 or a later one has been here: an earlier build may have left what this one cannot keep true,
/// such as items of another ledger, and 0.1.0 looks for it.
///
/// # Errors
/// A sentence for the operator.
pub(super) async fn check(connection: &mut MySqlConnection) -> Result<(), String> {
    match is_before_first_version(connection).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(BEFORE_FIRST_VERSION.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn is_before_first_version(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    if !has_table(connection, "_sqlx_migrations").await? {
        return Ok(false);
    }
    let newest = "SELECT MAX(version) FROM _sqlx_migrations WHERE success";
    let newest: Option<i64> = sqlx::query_scalar(newest).one(&mut *connection).await?;
    if newest.is_none_or(|newest| newest >= OF_FIRST_VERSION) {
        return Ok(false);
    }
    // The migration of a new ledger that was broken off goes on.
    let is_used = "SELECT EXISTS (SELECT 1 FROM users) OR EXISTS (SELECT 1 FROM items)";
    sqlx::query_scalar(is_used).one(connection).await
}

/// Says in the log that [`contract`] has something to do.
pub(super) async fn say_what_is_left(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let streams = streams(connection).await?;
    if streams > 0 {
        tracing::warn!(
            "{streams} endpoints of events are Redis streams, and switched off: events go to webhooks alone; \
             `seckill migrate --contract` deletes them"
        );
    }
    if order_indexes::is_of_earlier_builds(connection).await? {
        tracing::info!(
            "orders cost more on a large ledger until `seckill migrate --contract` has removed an index of \
             earlier builds; run it when none of their instances runs"
        );
    } else if has_table(connection, TABLES[0]).await? {
        tracing::info!(
            "`seckill migrate --contract` removes tables of earlier builds; run it when none of their instances runs"
        );
    }
    Ok(())
}

/// Removes what only earlier builds need, and says so to them.
pub(super) async fn contract(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let needs = "UPDATE schema_needs SET known_version_min = GREATEST(known_version_min, ?)";
    sqlx::query(needs).bind(KNOWN_VERSION_MIN).execute(&mut *connection).await?;
    order_indexes::contract(connection).await?;
    if streams(connection).await? > 0 {
        for statement in DELETE_STREAMS {
            connection.execute(sqlx::raw_sql(statement)).await?;
        }
    }
    for (table, column) in COLUMNS {
        if has_column(connection, table, column).await? {
            alter::table(connection, table, &format!("DROP COLUMN {column}")).await?;
        }
    }
    let drop = format!("DROP TABLE IF EXISTS {}", TABLES.join(", "));
    connection.execute(sqlx::raw_sql(&drop)).await?;
    Ok(())
}

/// Counts the endpoints that were Redis streams.
async fn streams(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    if !has_column(connection, "event_endpoints", "kind").await? {
        return Ok(0);
    }
    let count = "SELECT COUNT(*) FROM event_endpoints WHERE kind = 'redis-stream'";
    sqlx::query_scalar(count).one(connection).await
}

async fn has_table(connection: &mut MySqlConnection, name: &str) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = ?";
    let tables: i64 = sqlx::query_scalar(statement).bind(name).one(connection).await?;
    Ok(tables > 0)
}

async fn has_column(
    connection: &mut MySqlConnection,
    table: &str,
    column: &str,
) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?";
    let columns: i64 = sqlx::query_scalar(statement).binds((table, column)).one(connection).await?;
    Ok(columns > 0)
}
