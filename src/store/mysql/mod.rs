//! MySQL: the ledger's connection pool, all reads, and the writes of everything except orders and
//! stock.

pub mod actions;
pub mod ask;
pub mod audit;
pub mod buyers;
mod columns;
pub mod deliveries;
pub mod endpoints;
pub mod error;
pub mod event_log;
pub mod failures;
pub mod items;
pub mod link;
pub mod migrations;
pub mod orders;
pub mod outbox;
pub mod payments;
pub mod running;
pub mod sessions;
pub mod stock;
pub mod users;

use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, MySqlPool};

use crate::config::Config;
use link::{ANSWER_MAX, Link};
use migrations::MIGRATIONS;

pub use ask::{ask, change, failed_change, failed_read, nothing_was_sent};
pub use error::Fault;
pub use link::{answered, within};

/// How long an unused connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Seconds without a statement after which the server ends a session, and with it the row locks of
/// a session whose link died silently. Longer than a pool keeps a connection unused, which may be
/// twice [`IDLE_TIMEOUT`].
const SESSION_IDLE_SECONDS: u32 = 150;
/// Seconds without a statement after which MariaDB ends a session within a transaction.
const TRANSACTION_IDLE_SECONDS: u32 = 20;

/// Makes the pool that the whole service shares; connects when first used.
///
/// Sessions run at READ COMMITTED (no gap locks on the hot path, and a conditional UPDATE by
/// primary key checks the latest version) with a short lock wait. A connection that was used a
/// moment ago is not pinged before use: a dead one fails before anything was written, and the
/// caller tries again. The bounds of the waits are in `link.rs`.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool(config: &Config) -> Result<MySqlPool, String> {
    pool_of(config, config.mysql.pool_max)
}

/// Makes a pool like [`pool`] with another number of connections.
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
         SET SESSION innodb_lock_wait_timeout = {lock_wait_seconds}, \
         SESSION wait_timeout = {SESSION_IDLE_SECONDS} \
         /*M! , SESSION idle_transaction_timeout = {TRANSACTION_IDLE_SECONDS} */"
    );
    let acquire_timeout = Duration::from_millis(config.mysql.acquire_timeout_ms);
    let pool = Link::new(acquire_timeout)
        .look_after(MySqlPoolOptions::new())
        .max_connections(connections_max)
        .acquire_timeout(acquire_timeout)
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

/// How long a start waits for another instance that migrates the schema, in seconds.
const MIGRATION_WAIT_SECONDS: u32 = 120;

/// Creates the database of the URL if it is missing and brings its schema up to date. May run in
/// several instances at once: one does it, and the others wait for it. The lock is not sqlx's,
/// which waits without end: MariaDB refuses that with NULL instead of an error.
///
/// # Errors
/// A sentence for the operator.
pub async fn migrate(config: &Config, pool: &MySqlPool) -> Result<(), String> {
    let options = MySqlConnectOptions::from_str(config.database_url.reveal())
        .map_err(|error| format!("DATABASE_URL cannot be read: {error}"))?;
    if let Some(database) = options.get_database() {
        create_database(&options, database).await?;
    }
    let failed =
        |error: &dyn std::fmt::Display| format!("the schema cannot be brought up to date: {error}");
    let mut lock = options.connect().await.map_err(|error| failed(&error))?;
    let locked = sqlx::query_scalar("SELECT GET_LOCK(CONCAT('seckill-', MD5(DATABASE())), ?)")
        .bind(MIGRATION_WAIT_SECONDS)
        .fetch_one(&mut lock);
    let limit = Duration::from_secs(MIGRATION_WAIT_SECONDS.into()) + ANSWER_MAX;
    let locked: Option<i64> = within(limit, locked).await.map_err(|error| failed(&error))?;
    match locked {
        Some(1) => {}
        Some(_) => {
            return Err(failed(&format!(
                "another start has been at it for {MIGRATION_WAIT_SECONDS} s; try again when it has ended"
            )));
        }
        None => return Err(failed(&"the server refuses GET_LOCK")),
    }
    let migrated = MIGRATIONS.run(pool).await;
    // The lock ends with its connection.
    let _ = answered(lock.close()).await;
    migrated.map_err(|error| failed(&error))?;
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

/// The condition of the ledger: whether its schema is current and it takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether the schema is the one that this program was built for, or a later one.
    pub schema_is_current: bool,
    /// Whether it takes writes from this account.
    pub writable: bool,
}

/// Asks for the schema, and whether the server takes writes.
///
/// # Errors
/// The database's, when it does not answer.
pub async fn condition(pool: &MySqlPool) -> sqlx::Result<Condition> {
    let schema_is_current = schema_is_current(pool).await?;
    // A read-only server refuses this statement although it matches no row. Its variables are not
    // enough: some accounts may write all the same.
    let tried = sqlx::query("DELETE FROM revoked_sessions WHERE FALSE").execute(pool);
    let writable = match answered(tried).await {
        Err(error) if Fault::of(&error) == Fault::Connection => return Err(error),
        tried => !tried.is_err_and(|error| Fault::of(&error) == Fault::ReadOnly),
    };
    Ok(Condition { schema_is_current, writable })
}

/// The durability of a commit by the server's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// `innodb_flush_log_at_trx_commit`; 1 is durable.
    pub flush_at_commit: u8,
    /// Whether there is a binary log that is not written to the disk with each commit.
    pub binlog_unsynced: bool,
}

/// Reads the server's settings for the durability of a commit.
///
/// # Errors
/// The database's.
pub async fn durability(pool: &MySqlPool) -> sqlx::Result<Durability> {
    let asked = sqlx::query_as(
        "SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), CAST(@@log_bin AS SIGNED), \
         CAST(@@sync_binlog AS SIGNED)",
    )
    .fetch_one(pool);
    let (flush, log_bin, sync): (i64, i64, i64) = answered(asked).await?;
    let flush_at_commit = u8::try_from(flush).unwrap_or(u8::MAX);
    Ok(Durability { flush_at_commit, binlog_unsynced: log_bin != 0 && sync != 1 })
}

async fn create_database(options: &MySqlConnectOptions, database: &str) -> Result<(), String> {
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
        tracing::debug!(%error, "database not created; it may exist already");
    }
    let _ = connection.close().await;
    Ok(())
}
