//! The ledger's connection pool and everything that only reads it, or writes what is neither an
//! order nor stock.

pub mod actions;
pub mod ask;
pub mod audit;
pub mod buyers;
pub mod error;
pub mod failures;
pub mod items;
pub mod orders;
pub mod running;
pub mod sessions;
pub mod stock;
pub mod users;

use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{Executor, MySqlPool};

use crate::config::Config;

pub use ask::{ask, change, nothing_was_sent};
pub use error::Fault;

/// How long an unused connection stays open: below every common `wait_timeout`.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The schema's history, compiled in.
pub static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// Makes the pool that the whole service shares; connects when first used.
///
/// Sessions run at READ COMMITTED (no gap locks on the hot path, and a conditional UPDATE by
/// primary key is judged on the latest version) with a short lock wait. Connections are not
/// pinged before use: a dead one fails before anything was written, and the caller tries again.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool(config: &Config) -> Result<MySqlPool, String> {
    pool_of(config, config.mysql.pool_max)
}

/// The same with another number of connections.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool_of(config: &Config, connections_max: u32) -> Result<MySqlPool, String> {
    let url = config.database_url.reveal();
    if url.is_empty() {
        return Err("DATABASE_URL is not set: mysql://user:password@host:port/database".to_owned());
    }
    let options = MySqlConnectOptions::from_str(url)
        .map_err(|error| format!("DATABASE_URL cannot be read: {error}"))?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err("DATABASE_URL names no database: append /seckill".to_owned());
    }
    let lock_wait_seconds = config.mysql.lock_wait_timeout_seconds;
    let session = format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
         SET SESSION innodb_lock_wait_timeout = {lock_wait_seconds}"
    );
    let pool = MySqlPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(Duration::from_millis(config.mysql.acquire_timeout_ms))
        .idle_timeout(IDLE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let session = session.clone();
            Box::pin(async move {
                connection.execute(sqlx::raw_sql(&session)).await?;
                Ok(())
            })
        })
        .connect_lazy_with(options);
    Ok(pool)
}

/// Creates the database of the URL if it is missing and brings its schema up to date. May run in
/// several instances at once: the history is locked in the database.
///
/// # Errors
/// A sentence for the operator.
pub async fn migrate(config: &Config, pool: &MySqlPool) -> Result<(), String> {
    let options = MySqlConnectOptions::from_str(config.database_url.reveal())
        .map_err(|error| format!("DATABASE_URL cannot be read: {error}"))?;
    if let Some(database) = options.get_database() {
        create_database(&options, database).await?;
    }
    MIGRATIONS
        .run(pool)
        .await
        .map_err(|error| format!("the schema cannot be brought up to date: {error}"))?;
    users::fill_skeletons(pool)
        .await
        .map_err(|error| format!("the names of older accounts cannot be compared: {error}"))
}

/// Whether the schema is the one that this program was built for, or a later one.
///
/// # Errors
/// The database's, other than that there is no schema at all.
pub async fn schema_is_current(pool: &MySqlPool) -> sqlx::Result<bool> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max();
    let applied: sqlx::Result<Option<i64>> =
        sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations WHERE success")
            .fetch_one(pool)
            .await;
    match applied {
        Ok(applied) => Ok(applied >= newest),
        Err(error) if Fault::of(&error) == Fault::Connection => Err(error),
        // The table of migrations is missing.
        Err(_) => Ok(false),
    }
}

/// How far the server keeps what it has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// `innodb_flush_log_at_trx_commit`; 1 is durable.
    pub flush_at_commit: u8,
    /// Whether there is a binary log that is not written to the disk with each commit.
    pub binlog_unsynced: bool,
}

/// Asks the server how far it keeps what it has committed.
///
/// # Errors
/// The database's.
pub async fn durability(pool: &MySqlPool) -> sqlx::Result<Durability> {
    let (flush, log_bin, sync): (i64, i64, i64) = sqlx::query_as(
        "SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), CAST(@@log_bin AS SIGNED), \
         CAST(@@sync_binlog AS SIGNED)",
    )
    .fetch_one(pool)
    .await?;
    let flush_at_commit = u8::try_from(flush).unwrap_or(u8::MAX);
    Ok(Durability { flush_at_commit, binlog_unsynced: log_bin != 0 && sync != 1 })
}

async fn create_database(options: &MySqlConnectOptions, database: &str) -> Result<(), String> {
    use sqlx::{ConnectOptions, Connection};
    let plain = database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Err(format!("the database name {database:?} must be letters, digits and _"));
    }
    // An account that may not create databases is fine as long as the database is there.
    let Ok(mut connection) = options.clone().database("").connect().await else {
        return Ok(());
    };
    let statement = format!("CREATE DATABASE IF NOT EXISTS `{database}` CHARACTER SET utf8mb4");
    let created = connection.execute(sqlx::raw_sql(&statement)).await;
    if let Err(error) = created {
        tracing::debug!(%error, "the database was not created; it may exist already");
    }
    let _ = connection.close().await;
    Ok(())
}
