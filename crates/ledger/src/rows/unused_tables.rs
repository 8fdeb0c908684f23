//! The tables that only earlier builds use. They stay until no instance of an earlier build runs.

use sqlx::{Executor, MySqlConnection};

use super::schema::require;
use super::statement::Read;

/// The tables, as a list for SQL.
const TABLES: &str = "receipt_logs, receipt_queue, receipt_batches, room_openings";

/// The migration that a build knows which does without these tables.
const KNOWN_VERSION_MIN: i64 = 37;

/// Says in the log that [`contract`] has something to do.
pub(super) async fn say_what_is_left(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let statement = "SELECT COUNT(*) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND FIND_IN_SET(table_name, ?)";
    let names = TABLES.replace(", ", ",");
    let left: i64 = sqlx::query_scalar(statement).bind(names).one(connection).await?;
    if left > 0 {
        tracing::info!(
            left,
            "tables that only earlier builds use are left until `seckill migrate --contract` has dropped them; \
             run it when none of their instances runs"
        );
    }
    Ok(())
}

/// Drops the tables, and says so to earlier builds.
pub(super) async fn contract(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    require(connection, KNOWN_VERSION_MIN).await?;
    let drop = format!("DROP TABLE IF EXISTS {TABLES}");
    connection.execute(sqlx::raw_sql(&drop)).await?;
    Ok(())
}
