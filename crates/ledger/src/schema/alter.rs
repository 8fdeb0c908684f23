//! Changes a table while it is used.

use std::time::Duration;

use sqlx::{Executor, MySqlConnection};
use tokio::time::sleep;

use crate::sql::Fault;

/// The longest time, in seconds, that a change waits for transactions that use the table. New purchases wait behind
/// the change meanwhile.
const TABLE_WAIT_SECONDS_MAX: u32 = 1;
/// Changes that are tried until one finds no long transaction.
const TRIES_MAX: u32 = 20;
/// The pause after a change that did not get the table.
const PAUSE: Duration = Duration::from_secs(3);

/// Changes a table. The answer is awaited without a limit: it may take minutes.
pub(super) async fn table(
    connection: &mut MySqlConnection,
    table: &str,
    change: &str,
) -> sqlx::Result<()> {
    let limit = format!("SET SESSION lock_wait_timeout = {TABLE_WAIT_SECONDS_MAX}");
    connection.execute(sqlx::raw_sql(&limit)).await?;
    let statement = format!("ALTER TABLE {table} {change}, ALGORITHM=INPLACE, LOCK=NONE");
    for _ in 1..TRIES_MAX {
        match connection.execute(sqlx::raw_sql(&statement)).await {
            Err(error) if Fault::of(&error) == Fault::Transient => {
                tracing::warn!(change, "a long transaction uses the table `{table}`; trying again");
                sleep(PAUSE).await;
            }
            done => return done.map(drop),
        }
    }
    connection.execute(sqlx::raw_sql(&statement)).await.map(drop)
}
