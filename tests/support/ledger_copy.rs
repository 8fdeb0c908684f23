//! The ledger of each shop, as a copy of one that was migrated: forty migrations before each test would take longer
//! than the tests do.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use dev_servers::{MysqlServer, VitessServer};
use ledger::schema;
use mysql_connection::Database;
use seckill::config::Config;
use settings::Secret;
use sqlx::{Connection, Executor, MySqlConnection, MySqlPool, Row};
use tokio::sync::OnceCell;

/// The database that the others are copies of.
const ORIGINAL: &str = "seckill_original";
/// A keyspace of Vitess that is always there.
const DATABASE: &str = "seckill";

/// Makes a database like one that this program has migrated. A migration adds what depends on settings: the shop's
/// currency and the procedure of an order.
pub(super) async fn make(server: &MysqlServer, database: &str) {
    static DESCRIBED: OnceCell<String> = OnceCell::const_new();
    let original = server.url_of(ORIGINAL);
    let describe = || describe_original(&original, &original, ORIGINAL);
    let described = DESCRIBED.get_or_init(describe).await;
    copy(&server.url(), database, described).await;
}

/// The keyspaces that the test of this thread has made.
struct MadeKeyspaces(RefCell<Vec<String>>);

thread_local! {
    static MADE: MadeKeyspaces = const { MadeKeyspaces(RefCell::new(Vec::new())) };
}

/// Keyspaces whose tests have ended.
static ENDED: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Drop for MadeKeyspaces {
    fn drop(&mut self) {
        let mut ended = ENDED.lock().unwrap_or_else(PoisonError::into_inner);
        ended.append(self.0.get_mut());
    }
}

/// Removes the keyspaces whose tests have ended: the tablets of each one keep some fifty connections to the server.
async fn remove_ended(vitess: &VitessServer) {
    let ended = std::mem::take(&mut *ENDED.lock().unwrap_or_else(PoisonError::into_inner));
    if ended.is_empty() {
        return;
    }
    let gate = pool(&config(&vitess.url()));
    for keyspace in ended {
        let removed = gate.execute(&*format!("DROP DATABASE IF EXISTS `{keyspace}`")).await;
        if let Err(error) = removed {
            println!("the keyspace {keyspace} stays: {error}");
        }
    }
    gate.close().await;
}

/// Makes the database of a keyspace of Vitess, in the same way. The keyspace is made when the shop is migrated.
pub(super) async fn make_keyspace(vitess: &VitessServer, keyspace: &str) {
    remove_ended(vitess).await;
    MADE.with(|made| made.0.borrow_mut().push(keyspace.to_owned()));
    static DESCRIBED: OnceCell<String> = OnceCell::const_new();
    let behind = |keyspace: &str| format!("vt_{keyspace}_0");
    let original = behind(ORIGINAL);
    let gate = vitess.url_of(ORIGINAL);
    let server = vitess.server_url(&original);
    let describe = || describe_original(&gate, &server, &original);
    let described = DESCRIBED.get_or_init(describe).await;
    copy(&vitess.server_url(DATABASE), &behind(keyspace), described).await;
}

async fn copy(url: &str, database: &str, described: &str) {
    let statements = format!(
        "CREATE DATABASE `{database}` CHARACTER SET utf8mb4; USE `{database}`; \
         SET SESSION foreign_key_checks = 0; {described}"
    );
    let mut connection = MySqlConnection::connect(url).await.expect("connected");
    connection.execute(sqlx::raw_sql(&statements)).await.expect("the ledger is copied");
    connection.close().await.expect("closed");
}

/// Migrates the original, and returns the statements that make one like it on the server, where it has this name.
async fn describe_original(migrated: &str, server: &str, name: &str) -> String {
    migrated_pool(migrated).await.close().await;
    let pool: Database = MySqlPool::connect(server).await.expect("connected").into();
    let mut statements = definitions(&pool).await;
    for table in tables(&pool, "BASE TABLE").await {
        if count(&pool, &table).await > 0 {
            statements.push(format!("INSERT INTO `{table}` SELECT * FROM `{name}`.`{table}`"));
        }
    }
    pool.close().await;
    statements.join("; ")
}

/// The statements that make the tables and views of a database, in this order.
pub async fn definitions(pool: &Database) -> Vec<String> {
    let mut definitions = Vec::new();
    for (kind, show) in [("BASE TABLE", "SHOW CREATE TABLE"), ("VIEW", "SHOW CREATE VIEW")] {
        for name in tables(pool, kind).await {
            let shown = pool.fetch_one(&*format!("{show} `{name}`")).await.expect("shown");
            definitions.push(shown.try_get_unchecked(1).expect("a statement"));
        }
    }
    definitions
}

/// The names of the tables of a kind.
async fn tables(pool: &Database, kind: &str) -> Vec<String> {
    let names = "SELECT CAST(table_name AS CHAR) AS name FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_type = ? ORDER BY name";
    sqlx::query_scalar(names).bind(kind).fetch_all(pool).await.expect("the tables are listed")
}

async fn count(pool: &Database, table: &str) -> i64 {
    let count = format!("SELECT COUNT(*) FROM `{table}`");
    sqlx::query_scalar(&count).fetch_one(pool).await.expect("the rows are counted")
}

/// What no statement of a table shows is not copied, so there must be none of it; and no row is missing.
#[tokio::test]
async fn a_copy_is_what_a_migration_makes() {
    let server = super::servers().await.mysql;
    let [migrated, copied] = ["migrated", "copied"].map(super::unique);
    let url = |name: &str| server.url_of(&format!("seckill_{name}"));
    make(server, &format!("seckill_{copied}")).await;
    let migrated = seen(&migrated_pool(&url(&migrated)).await).await;
    let pool = migrated_pool(&url(&copied)).await;
    assert_eq!(seen(&pool).await, migrated);
    // Whatever a copy has more, less or otherwise is seen.
    for planted in [
        "INSERT INTO fences (item_id, backend, fence) VALUES (1, 'redis', 1)",
        "ALTER TABLE stock ADD COLUMN planted INT NULL",
        "DROP INDEX orders_item_status ON orders",
        "CREATE TRIGGER planted BEFORE INSERT ON stock FOR EACH ROW SET NEW.available = 0",
    ] {
        let before = seen(&pool).await;
        pool.execute(sqlx::raw_sql(planted)).await.expect("planted");
        assert_ne!(seen(&pool).await, before, "{planted}");
    }
}

/// The settings of a shop with this database.
pub(super) fn config(url: &str) -> Config {
    let mut config = Config::defaults();
    config.database_url = Secret::new(url.to_owned());
    config
}

fn pool(config: &Config) -> Database {
    mysql_connection::pool(config).expect("the URL is fine")
}

/// A database after a migration.
async fn migrated_pool(url: &str) -> Database {
    migrated(&config(url)).await
}

/// The database of these settings after a migration.
pub(super) async fn migrated(config: &Config) -> Database {
    let pool = pool(config);
    schema::migrate(config, &pool).await.expect("the schema is made");
    pool
}

/// What a database has: definitions, and the number of rows.
async fn seen(pool: &Database) -> Vec<String> {
    let mut seen = definitions(pool).await;
    for table in tables(pool, "BASE TABLE").await {
        seen.push(format!("{table}: {}", count(pool, &table).await));
    }
    for kind in ["routine", "trigger", "event"] {
        let names = format!(
            "SELECT CAST({kind}_name AS CHAR) FROM information_schema.{kind}s \
             WHERE {kind}_schema = DATABASE()"
        );
        let names: Vec<String> = sqlx::query_scalar(&names).fetch_all(pool).await.expect("listed");
        seen.extend(names);
    }
    seen
}
