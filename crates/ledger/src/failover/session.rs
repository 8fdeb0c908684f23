//! The sessions of the ledger: the one place where one is opened and set up.
//!
//! The server ends a session that sends nothing for [`IDLE_SECONDS`], and with it the session's transaction, row
//! locks and named locks. So an instance that hangs, or whose link died silently, blocks the others for no longer. The
//! limit is `wait_timeout`, which all engines have: MySQL has none of its own for transactions.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{ConnectOptions, Executor};

/// Seconds without a statement after which the server ends a session.
const IDLE_SECONDS: u32 = 20;
/// How long a pool keeps an unused connection. It may be kept twice as long, which is still less than
/// [`IDLE_SECONDS`]: so the server seldom ends a session that an instance would use.
pub(super) const UNUSED_MAX: Duration = Duration::from_secs(9);

/// Opens a session outside of the pools.
///
/// # Errors
/// The server's. The wait is not bounded here.
pub(crate) async fn open(options: &MySqlConnectOptions) -> sqlx::Result<MySqlConnection> {
    let mut connection = options.connect().await?;
    connection.execute(sqlx::raw_sql(&idle_limit())).await?;
    Ok(connection)
}

/// The statements that set up a session of a pool: at READ COMMITTED there are no gap locks on the hot path, and a
/// conditional UPDATE by primary key checks the latest version.
pub(super) fn of_pool(lock_wait_seconds: u32) -> String {
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET SESSION innodb_lock_wait_timeout = {lock_wait_seconds}; {}",
        idle_limit()
    )
}

fn idle_limit() -> String {
    format!("SET SESSION wait_timeout = {IDLE_SECONDS}")
}
