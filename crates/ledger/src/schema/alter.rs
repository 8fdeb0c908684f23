//! Changes a table while it is used.

use std::time::{Duration, Instant};

use sqlx::{Executor, MySqlConnection};
use tokio::time::sleep;

use mysql_connection::{Fault, replication};

/// The longest time that a change waits for transactions that use the table. New purchases wait behind the change
/// meanwhile.
const TABLE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Changes that are tried until one finds no long transaction.
pub(super) const TRIES_MAX: u32 = 20;
/// The pause after a change that did not get the table.
pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// Has the changes of a session wait no longer than [`TABLE_WAIT_MAX`].
pub(super) async fn limit_waits(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let limit = format!("SET SESSION lock_wait_timeout = {}", TABLE_WAIT_MAX.as_secs());
    connection.execute(sqlx::raw_sql(&limit)).await.map(drop)
}

/// Changes a table, unless that is done. The answer is awaited without a limit: it may take minutes.
///
/// A vtgate of Vitess sets no limit for the wait alone, so there the whole change may take no longer. One that was ended
/// may be done nevertheless.
pub(super) async fn table(
    connection: &mut MySqlConnection,
    table: &str,
    change: &str,
    is_done: impl AsyncFn(&mut MySqlConnection) -> sqlx::Result<bool>,
) -> sqlx::Result<()> {
    if is_done(&mut *connection).await? {
        return Ok(());
    }
    let is_vitess = replication::leads_to_vitess(&mut *connection).await?;
    limit_waits(&mut *connection).await?;
    // For others than a vtgate the first words are a comment.
    let statement = format!(
        "ALTER /*vt+ QUERY_TIMEOUT_MS={} */ TABLE {table} {change}, ALGORITHM=INPLACE, LOCK=NONE",
        TABLE_WAIT_MAX.as_millis()
    );
    let mut tries = 1;
    loop {
        let started = Instant::now();
        let Err(error) = connection.execute(sqlx::raw_sql(&statement)).await else {
            return Ok(());
        };
        let is_late = is_vitess && started.elapsed() >= TABLE_WAIT_MAX;
        if !is_late && Fault::of(&error) != Fault::Transient {
            return Err(error);
        }
        if is_done(&mut *connection).await? {
            return Ok(());
        }
        if tries == TRIES_MAX {
            if is_vitess {
                tracing::error!(
                    "the table is large or always in use; let Vitess change it, and migrate again: vtctldclient \
                     ApplySchema --ddl-strategy=vitess --sql \"ALTER TABLE {table} {change}\" KEYSPACE"
                );
            }
            return Err(error);
        }
        tracing::warn!(change, "a long transaction uses the table `{table}`; trying again");
        tries += 1;
        sleep(PAUSE).await;
    }
}
