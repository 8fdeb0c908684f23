//! What the service makes of Vitess' words, said by a server that every run of the tests has.

use std::sync::atomic::AtomicU32;

use faulty_link::FaultyLink;
use ledger::work::monitor;
use mysql_connection::{Writer, check};
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};
use tokio_util::sync::CancellationToken;

use crate::ledger::hostile_server::OF_OTHERS;
use crate::process::start_mistakes::is_mariadb;
use crate::support::prelude::*;

/// What a server is told to say: the message of a vtgate, which ends with the values of the statement.
const TAKEN: &str = "SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062, MESSAGE_TEXT = 'Duplicate entry ''5'' for key \
     ''users.PRIMARY'' (errno 1062) (sqlstate 23000) (CallerID: u): Sql: \"x\", BindVars: {v1: $argon2id$}'";

#[tokio::test]
async fn a_taken_id_is_known_behind_a_vtgate_and_no_value_is_shown() {
    let shop = Shop::new().await;
    let tries = AtomicU32::new(0);
    let taken = mysql_connection::with_new_id(|| {
        tries.fetch_add(1, Ordering::Relaxed);
        mysql_connection::transact(&shop.pool, |transaction| {
            Box::pin(async move { transaction.execute(sqlx::raw_sql(TAKEN)).await.map(drop) })
        })
    });
    let error = taken.await.expect_err("each id is taken");
    assert_eq!(tries.into_inner(), 4, "each try has a new id");
    let texts = format!("{error} {error:?}");
    assert!(texts.contains("'users.PRIMARY'") && !texts.contains("$argon2id$"), "{texts}");
}

/// A shop, unless the tests run on MySQL.
async fn shop_beside_mariadb() -> Option<Shop> {
    let shop = Shop::new().await;
    if is_mariadb(&shop).await {
        return Some(shop);
    }
    println!("left out: MySQL has no option for the version that it names");
    None
}

/// A server that names itself as a vtgate does, and runs these statements when it starts.
async fn named_vitess(extra_statements: Vec<String>) -> MysqlServer {
    let mut options = MysqlOptions::temporary();
    options.extra_statements = extra_statements;
    options.extra_arguments = vec!["--version=8.4.0-Vitess".to_owned()];
    own_mysql(options).await
}

/// A session on Vitess is sent fewer settings, and some that other servers refuse. The first one on another server after
/// it gets all that are for this server.
#[tokio::test]
async fn an_address_that_led_to_vitess_gets_all_settings_when_it_leads_elsewhere() {
    let Some(shop) = shop_beside_mariadb().await else { return };
    let server = named_vitess(OF_OTHERS.map(str::to_owned).to_vec()).await;
    let link = FaultyLink::to_url(&server.tcp_url()).await.expect("a link");
    let mut config = shop.config.clone();
    config.database_url = Secret::new(link.url());
    let pool = mysql_connection::pool_of(&config, 3).expect("the URL is fine");
    let _first = pool.acquire().await.expect("the session that finds Vitess");
    // From now on the server does not say its version.
    link.blank(b"version");
    assert_eq!(check::session_differences(&pool).await.expect("read"), Vec::<String>::new());
}

/// Tables that answer what a vtgate is asked: its shards, its tablets, and the places of some ids.
const TWO_SHARDS: &str = "CREATE TABLE SHARDS (name VARCHAR(40)); CREATE TABLE TABLETS (name VARCHAR(40)); \
     INSERT INTO SHARDS VALUES ('seckill_items/-80'), ('seckill_items/80-'); \
     CREATE DATABASE seckill_items; \
     CREATE TABLE seckill_items.`hash` (id BIGINT, hex_keyspace_id CHAR(16)); \
     INSERT INTO seckill_items.`hash` VALUES (1, '166b40b44aba4bd6'), (2, '06e7ea22ce92708f'), \
     (4096, 'ce332329248f3228'), (4503599627370496, 'f15d0f286b65bd28')";
/// The first of them is split.
const SPLIT: &str = "INSERT INTO SHARDS VALUES ('seckill_items/-40'), ('seckill_items/40-80')";

/// The shards are read again and again, and not only by a new connection: on one that stays, an instance learns of a split,
/// and from then on gathers orders of items that are apart in two queues.
#[tokio::test]
async fn a_split_is_seen_on_a_connection_that_stays() {
    let Some(shop) = shop_beside_mariadb().await else { return };
    let server = named_vitess(Vec::new()).await;
    let mut topology = MySqlConnection::connect(&server.tcp_url()).await.expect("it answers");
    topology.execute(sqlx::raw_sql(TWO_SHARDS)).await.expect("made");
    let link = FaultyLink::to_url(&server.tcp_url()).await.expect("a link");
    // A question to a vtgate becomes the name of a table.
    link.replace(b"SHOW VITESS_", b"SELECT*FROM ");
    let writer = Writer::new(link.url()).expect("the URL is fine");
    let pool = mysql_connection::pool_to(&writer, &shop.config, 1);
    let stop = CancellationToken::new();
    tokio::spawn(monitor::watch(pool, writer.clone(), Metrics::new(), stop.clone()));
    let knows = async |count: usize| {
        until("the shards", || async { writer.shards().count() }, |known| *known == count).await
    };
    let queues = || [1, 5].map(|id| writer.shards().queue_of(id, 4));
    knows(2).await;
    let [first, second] = queues();
    assert_eq!(first, second, "both items are in one shard");
    topology.execute(sqlx::raw_sql(SPLIT)).await.expect("split");
    knows(4).await;
    let [first, second] = queues();
    assert_ne!(first, second, "each item is in a shard of its own");
    assert_eq!(link.connections(), 1, "a new connection would read the shards, too");
    stop.cancel();
}
