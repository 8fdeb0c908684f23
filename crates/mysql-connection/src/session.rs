//! The sessions: the one place where one is opened and set up.
//!
//! A server's own settings and its `init_connect` belong to others: with `autocommit = 0` each single statement would
//! be taken back after its answer. So each session sets what the program relies on ([`SETTINGS`]), and
//! [`session_differences`] reads it back: a proxy between may have dropped it.
//!
//! The server ends a session that sends nothing for [`IDLE_SECONDS`], and with it the session's transaction, row
//! locks and named locks. So an instance that hangs, or whose link died silently, blocks the others for no longer. The
//! limit is `wait_timeout`, which all engines have: MySQL has none of its own for transactions.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Executor, MySql};

use crate::limits::TRANSACTION_MAX;
use crate::statement::Read;
use crate::{Database, answered, replication};

/// Seconds without a statement after which the server ends a session.
const IDLE_SECONDS: u32 = 20;
/// How long a pool keeps an unused connection. It may be kept twice as long, which is still less than
/// [`IDLE_SECONDS`]: so the server seldom ends a session that an instance would use.
pub(crate) const UNUSED_MAX: Duration = Duration::from_secs(9);

/// The rules for SQL: what does not fit is refused, and a quote has one meaning.
const SQL_MODE: &str = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";

/// A variable of a session: its name, the value that is set, and how servers show it.
struct Setting(&'static str, &'static str, &'static [&'static str]);

/// The variables that all engines have, beside those of [`ISOLATION`] and [`by_the_driver`].
const SETTINGS: [Setting; 10] = [
    // Otherwise a statement outside of a transaction is never committed.
    Setting("autocommit", "1", &["ON", "1"]),
    // Otherwise a COMMIT begins another transaction, or ends the session.
    Setting("completion_type", "0", &["NO_CHAIN", "0"]),
    Setting("foreign_key_checks", "1", &["ON", "1"]),
    Setting("unique_checks", "1", &["ON", "1"]),
    // These refuse statements, or cut answers short.
    Setting("sql_safe_updates", "0", &["OFF", "0"]),
    Setting("sql_big_selects", "1", &["ON", "1"]),
    Setting("sql_select_limit", "18446744073709551615", &["18446744073709551615"]),
    Setting("group_concat_max_len", "1048576", &["1048576"]),
    Setting("max_sort_length", "1024", &["1024"]),
    // Otherwise `id IS NULL` finds the row that was inserted last.
    Setting("sql_auto_is_null", "0", &["OFF", "0"]),
];

/// At READ COMMITTED there are no gap locks on the hot path, and a conditional UPDATE by primary key checks the latest
/// version.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

/// The variables that only MariaDB has, and that only MySQL has: each takes the other's for a comment.
const OF_ONE_ENGINE: &str = "/*M! , max_statement_time = 0, check_constraint_checks = 1 */ \
     /*!80000 , max_execution_time = 0 */";

/// What the names above and those of the driver must show; of a name that a server lacks nothing is expected.
const SHOWN: [(&str, &[&str]); 12] = [
    ("transaction_isolation", &["READ-COMMITTED"]),
    ("tx_isolation", &["READ-COMMITTED"]),
    ("transaction_read_only", &["OFF", "0"]),
    ("tx_read_only", &["OFF", "0"]),
    ("max_statement_time", &["0.000000"]),
    ("check_constraint_checks", &["ON"]),
    ("max_execution_time", &["0"]),
    ("time_zone", &["+00:00"]),
    ("character_set_client", &["utf8mb4"]),
    ("character_set_connection", &["utf8mb4"]),
    ("character_set_results", &["utf8mb4"]),
    ("collation_connection", &["utf8mb4_unicode_ci"]),
];

/// The setting that a vtgate of Vitess does not know as the others do: it has no such limit by itself.
const NOT_OF_VITESS: &str = "sql_select_limit";

/// What a session on Vitess sets. A vtgate would compare each further variable with the tablet's server, at a round trip
/// each, and keep connections of their own kind for those that differ. So the servers behind have the settings
/// themselves (`deploy/vitess/mysqld.cnf`), and [`session_differences`] says so if not.
/// A change of two shards is atomic there.
const OF_VITESS: &str = "SET autocommit = 1, transaction_mode = 'twopc'";

/// Has Vitess wait a day for each statement, in milliseconds. By itself it ends one after a minute
/// (`deploy/vitess/vttablet.flags`).
const WITHOUT_LIMIT: &str = "SET query_timeout = 86400000";

/// Has a tablet of Vitess end a transaction when nobody waits for its statements any more. A vtgate that is killed leaves
/// its transactions to the tablets, and each keeps its row locks until then. Vitess counts from the first statement, and
/// lets a COMMIT end that was sent in time.
static SHORT: LazyLock<String> =
    LazyLock::new(|| format!("SET transaction_timeout = {}; ", TRANSACTION_MAX.as_millis()));

/// Lets a transaction on Vitess take as long as the tablets allow.
const LONG: &str = "SET transaction_timeout = 0";

/// Has Vitess refuse a transaction that touches a second shard.
const ONE_SHARD: &str = "SET transaction_mode = 'single'; ";

/// What the sessions of a pool have of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSession {
    pub(crate) lock_wait_seconds: u32,
    /// Whether each transaction is of one shard.
    pub(crate) is_of_one_shard: bool,
}

/// The statements that set up each session on other engines.
static ON_OTHERS: LazyLock<String> = LazyLock::new(|| {
    let settings = SETTINGS.iter().map(|Setting(name, value, _)| format!(", {name} = {value}"));
    let settings: String = settings.collect();
    format!(
        "{ISOLATION}; SET wait_timeout = {IDLE_SECONDS}, sql_mode = '{SQL_MODE}'{settings} {OF_ONE_ENGINE}"
    )
});

/// The statements that set up each session on an engine.
fn of_each(is_vitess: bool) -> &'static str {
    if is_vitess { OF_VITESS } else { &ON_OTHERS }
}

/// Leaves to the driver what it sets itself, whatever the URL says: the program's times are UTC, and its texts UTF-8.
pub(crate) fn by_the_driver(options: MySqlConnectOptions) -> MySqlConnectOptions {
    options
        .timezone(Some("+00:00".to_owned()))
        .charset("utf8mb4")
        .collation("utf8mb4_unicode_ci")
        .pipes_as_concat(false)
        .no_engine_substitution(false)
}

/// Opens a session outside of the pools.
///
/// # Errors
/// The server's. The wait is not bounded here.
pub async fn open(options: &MySqlConnectOptions) -> sqlx::Result<MySqlConnection> {
    let mut connection = options.connect().await?;
    match connection.execute(sqlx::raw_sql(of_each(false))).await {
        Err(error) if is_of_vitess(&error, &mut connection).await => {
            connection.execute(sqlx::raw_sql(of_each(true))).await?;
        }
        sent => sent.map(drop)?,
    }
    Ok(connection)
}

/// Opens a session for statements that may take minutes, such as a change of a large table.
///
/// # Errors
/// The server's. The wait is not bounded here.
pub async fn open_without_limit(options: &MySqlConnectOptions) -> sqlx::Result<MySqlConnection> {
    let mut connection = open(options).await?;
    if replication::leads_to_vitess(&mut connection).await? {
        connection.execute(sqlx::raw_sql(WITHOUT_LIMIT)).await?;
    }
    Ok(connection)
}

/// Returns whether an error is the refusal of a vtgate, which must get the settings for Vitess.
async fn is_of_vitess(error: &sqlx::Error, connection: &mut MySqlConnection) -> bool {
    error.as_database_error().is_some()
        && replication::leads_to_vitess(connection).await.unwrap_or(false)
}

/// Takes a connection whose next transaction reads one snapshot, and may take long. A vtgate of Vitess sets that for the
/// whole session, and what reads after it has waited would read what is over: there the connection is closed after use.
///
/// # Errors
/// The database's.
pub async fn for_snapshot(pool: &Database) -> sqlx::Result<PoolConnection<MySql>> {
    let mut connection = pool.acquire().await?;
    if replication::leads_to_vitess(&mut connection).await? {
        connection.close_on_drop();
        connection.execute(sqlx::raw_sql(LONG)).await?;
    }
    let isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    connection.execute(sqlx::raw_sql(isolation)).await?;
    Ok(connection)
}

/// The connection of a snapshot. When it is dropped, it is rolled back before its next use, as every connection
/// of a pool.
pub type Snapshot = PoolConnection<MySql>;

/// Begins a snapshot: a transaction that sees the database as it is at its first read.
///
/// # Errors
/// The database's.
pub async fn begin_snapshot(pool: &Database) -> sqlx::Result<Snapshot> {
    let begin = async {
        let mut connection = for_snapshot(pool).await?;
        let begin = sqlx::raw_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
        connection.execute(begin).await?;
        Ok(connection)
    };
    answered(begin).await
}

/// The statements that set up a session of a pool.
pub(crate) fn of_pool(is_vitess: bool, pool: PoolSession) -> String {
    let PoolSession { lock_wait_seconds, is_of_one_shard } = pool;
    let of_each = of_each(is_vitess);
    let short = if is_vitess { SHORT.as_str() } else { "" };
    let one_shard = if is_vitess && is_of_one_shard { ONE_SHARD } else { "" };
    format!(
        "{of_each}; {short}{one_shard}SET SESSION innodb_lock_wait_timeout = {lock_wait_seconds}"
    )
}

/// Reads the settings of a pool's session that are not what the program relies on, each as `name = value`.
pub async fn session_differences(pool: &Database) -> sqlx::Result<Vec<String>> {
    let asked = async { replication::leads_to_vitess(&mut *pool.acquire().await?).await };
    let is_vitess = answered(asked).await?;
    let of_engine = SETTINGS.iter().filter(|setting| !is_vitess || setting.0 != NOT_OF_VITESS);
    let own = of_engine.map(|Setting(name, _, shown)| (*name, *shown));
    let expected: Vec<_> = own.chain(SHOWN).collect();
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let question = format!(
        "SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode', '{}')",
        names.join("', '")
    );
    let found: Vec<(String, String)> = sqlx::query_as(&question).all(pool).await?;
    let modes = |text: &str| text.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
    let is_different = |(name, value): &(String, String)| match expected
        .iter()
        .find(|(expected, _)| name.eq_ignore_ascii_case(expected))
    {
        Some((_, shown)) => !shown.contains(&value.as_str()),
        None => modes(value) != modes(SQL_MODE),
    };
    let different = found.into_iter().filter(is_different);
    Ok(different.map(|(name, value)| format!("{name} = {value}")).collect())
}
