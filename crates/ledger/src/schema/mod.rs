//! The schema of the ledger: made, brought up to date, and compared with this program.

mod alter;
mod apply;
mod contract;
mod migrations;
mod order_indexes;
mod state;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, MySqlConnection};

use crate::work::monitor::is_writable;
use crate::write::order_routine;
use mysql_connection::named_lock::NamedLock;
use mysql_connection::statement::Read;
use mysql_connection::{Database, Shards, answered, hosts, replication, session};

pub use migrations::MIGRATIONS;
pub use state::{SchemaState, enforces_constraints, newest_version, schema_state};

/// How long a start waits for another instance that migrates the schema, in seconds.
const MIGRATION_WAIT_SECONDS: u32 = 120;

/// What a change of the schema needs to know. A program makes it from its own settings.
pub struct SchemaOptions {
    /// The URL of the ledger's hosts, with the password.
    pub url: String,
    /// Whether [`migrate`] makes the procedure of an order.
    pub order_routine: bool,
}

/// Creates the database of the URL if it is missing and brings its schema up to date, as far as earlier builds
/// can use it. May run in several instances at once: one does it, and the others wait for it.
///
/// # Errors
/// A sentence for the operator.
pub async fn migrate(options: impl Into<SchemaOptions>, pool: &Database) -> Result<(), String> {
    let ledger = options.into();
    let mut schema = LockedSchema::take(&ledger, pool).await?;
    let LockedSchema { lock, connection } = &mut schema;
    let work =
        Box::pin(async { Ok::<_, sqlx::Error>(migrate_on(connection, &ledger, pool).await) });
    let migrated = lock.keep_during(work).await;
    schema.release().await;
    migrated.map_err(|error| migration_failed(&error))?
}

/// Removes from an up-to-date schema what only earlier builds need.
///
/// # Errors
/// A sentence for the operator.
pub async fn contract(options: impl Into<SchemaOptions>, pool: &Database) -> Result<(), String> {
    let mut schema = LockedSchema::take(&options.into(), pool).await?;
    let LockedSchema { lock, connection } = &mut schema;
    let work = Box::pin(async { Ok::<_, sqlx::Error>(contract_on(connection).await) });
    let contracted = lock.keep_during(work).await;
    schema.release().await;
    contracted.map_err(|error| migration_failed(&error))?
}

/// Says in the log that [`contract`] has something to do, if it has.
///
/// # Errors
/// A sentence for the operator.
pub async fn say_what_is_left(pool: &Database) -> Result<(), String> {
    let said = async { contract::say_what_is_left(&mut *pool.acquire().await?).await };
    said.await.map_err(|error| migration_failed(&error))
}

/// A connection that alone may change the schema, and the lock by which it may. The lock is not sqlx's, which waits
/// without end: MariaDB refuses that with NULL instead of an error.
struct LockedSchema {
    lock: NamedLock,
    connection: MySqlConnection,
}

impl LockedSchema {
    /// Creates the database if it is missing, and waits for the lock.
    async fn take(ledger: &SchemaOptions, pool: &Database) -> Result<Self, String> {
        let hosts = hosts::read(&ledger.url)?;
        for host in &hosts {
            if let Some(database) = host.get_database() {
                create_database(host, database).await?;
            }
        }
        if hosts.len() > 1 {
            // From now on the pool's options lead to the writer.
            drop(pool.acquire().await.map_err(|error| migration_failed(&error))?);
        }
        // A slow migration would be logged with its whole text.
        let options = (*pool.connect_options()).clone().disable_statement_logging();
        let lock = NamedLock::take(&options, "seckill-", "", MIGRATION_WAIT_SECONDS).await;
        let Some(lock) = lock.map_err(|error| migration_failed(&error))? else {
            return Err(migration_failed(&format!(
                "another start has been at it for {MIGRATION_WAIT_SECONDS} s; try again when it has ended"
            )));
        };
        let opened = session::open_without_limit(&options).await;
        let connection = opened.map_err(|error| migration_failed(&error))?;
        Ok(Self { lock, connection })
    }

    async fn release(self) {
        let _ = answered(self.connection.close()).await;
        self.lock.release().await;
    }
}

/// Runs the migrations. A ledger that is made here has no earlier builds to care for.
async fn migrate_on(
    connection: &mut MySqlConnection,
    options: &SchemaOptions,
    pool: &Database,
) -> Result<(), String> {
    contract::check(&mut *connection).await.map_err(|why| migration_failed(&why))?;
    let is_new = migrations_done(pool).await == 0;
    let migrated = apply::all(&mut *connection).await;
    migrated.map_err(|error| migration_failed(&error))?;
    let is_vitess = replication::leads_to_vitess(connection).await.unwrap_or(false);
    let found = Shards::default();
    if is_vitess {
        found.read(&mut *connection).await.map_err(|error| migration_failed(&error))?;
    }
    if found.count() > 0 {
        // The tables of items were made in the shards, with all else of what follows; docs/vitess.md.
        return Ok(());
    }
    let indexed = async {
        order_indexes::expand(connection).await?;
        if is_new { contract::contract(connection).await } else { Ok(()) }
    };
    indexed.await.map_err(|error| migration_failed(&error))?;
    if options.order_routine
        && !is_vitess
        && let Err(error) = order_routine::install(connection).await
    {
        tracing::warn!(%error, "the procedure of an order cannot be made; orders are sent as statements");
    }
    Ok(())
}

async fn contract_on(connection: &mut MySqlConnection) -> Result<(), String> {
    contract::check(&mut *connection).await.map_err(|why| migration_failed(&why))?;
    contract::contract(connection).await.map_err(|error| migration_failed(&error))
}

fn migration_failed(error: &dyn std::fmt::Display) -> String {
    /// The words of a server whose disk is full: a table or a file cannot grow.
    const FULL: [&str; 5] =
        ["is full", "errno: 28 ", "errno: 135 ", "No space left", "Temporary file write failure"];
    let text = format!("the schema cannot be brought up to date: {error}");
    if FULL.iter().any(|words| text.contains(words)) {
        return format!("{text}; free some space on the disk of the database");
    }
    text
}

/// The number of migrations that the database has; 0 if it does not say.
pub async fn migrations_done(pool: &Database) -> usize {
    let done: sqlx::Result<i64> =
        sqlx::query_scalar("SELECT COUNT(*) FROM _sqlx_migrations WHERE success").one(pool).await;
    done.ok().and_then(|done| usize::try_from(done).ok()).unwrap_or(0)
}

/// The condition of the ledger: whether its schema is current and it takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The schema, compared with this program.
    pub schema: SchemaState,
    /// Whether it takes writes from this account.
    pub writable: bool,
}

/// Asks for the schema, and whether the server takes writes.
pub async fn condition(pool: &Database) -> sqlx::Result<Condition> {
    let schema = schema_state(pool).await?;
    Ok(Condition { schema, writable: is_writable(pool).await? })
}

async fn create_database(options: &MySqlConnectOptions, database: &str) -> Result<(), String> {
    let plain = database.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return Err(format!("the database name {database:?} must be letters, digits and _"));
    }
    // An account that may not create databases is fine as long as the database is there; so is a
    // replica, which gets it from the writer.
    let Ok(mut connection) = session::open(&options.clone().database("")).await else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_for_a_full_disk_has_the_remedy() {
        for (error, is_full) in [
            ("1114 (HY000): The table 'orders' is full", true),
            (
                "3 (HY000): Error writing file './t.frm' (Errcode: 28 \"No space left on device\")",
                true,
            ),
            ("1026 (HY000): Error writing file 'orders' (errno: 28 \"No space\")", true),
            ("1878 (HY000): Temporary file write failure.", true),
            ("1146 (42S02): Table 'shop.orders' doesn't exist", false),
        ] {
            let said = migration_failed(&error);
            assert_eq!(
                said.ends_with("free some space on the disk of the database"),
                is_full,
                "{said}"
            );
        }
    }
}
