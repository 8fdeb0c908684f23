//! A server whose own settings are others': each session sets what the program relies on.

use mysql_connection::check;
use sqlx::{Connection, MySqlConnection};

use crate::http::{PASSWORD, sign_up};
use crate::support::prelude::*;

/// What an operator may have set for another program. The last statement ends the writes of the start itself. The
/// lines of one engine are comments to the other.
pub const OF_OTHERS: [&str; 17] = [
    "SET GLOBAL autocommit = 0",
    "SET GLOBAL completion_type = 2",
    "SET GLOBAL sql_mode = CONCAT('ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES,IGNORE_SPACE,\
     HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION' /*M! , ',SIMULTANEOUS_ASSIGNMENT' */)",
    "SET GLOBAL time_zone = '+09:30'",
    "SET GLOBAL foreign_key_checks = 0",
    "SET GLOBAL unique_checks = 0",
    "SET GLOBAL sql_safe_updates = 1",
    "SET GLOBAL sql_big_selects = 0",
    "SET GLOBAL sql_select_limit = 1",
    "SET GLOBAL group_concat_max_len = 4",
    "SET GLOBAL max_sort_length = 64",
    "SET GLOBAL sql_auto_is_null = 1",
    "SET GLOBAL innodb_lock_wait_timeout = 1",
    "SET GLOBAL character_set_client = latin1, GLOBAL character_set_connection = latin1, \
     GLOBAL character_set_results = latin1 /*M! , GLOBAL max_statement_time = 5 */ \
     /*!80000 , GLOBAL max_execution_time = 5000 */",
    "SET GLOBAL init_connect = \"SET autocommit = 0, sql_safe_updates = 1, NAMES latin1\"",
    "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET GLOBAL TRANSACTION READ ONLY",
];

async fn hostile_server() -> MysqlServer {
    let mut options = MysqlOptions::temporary();
    options.extra_statements = OF_OTHERS.map(str::to_owned).to_vec();
    own_mysql(options).await
}

/// An account and an order that were answered are there for others, in every letter; EF Core's
/// Pomelo.EntityFrameworkCore.MySql#1740 is a program that lost them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_answered_is_written_whatever_the_server_sets() {
    const NAME: &str = "买家";
    let server = hostile_server().await;
    let database = unique("seckill");
    let url = server.url_of(&database);
    let (shop, instance) = Shop::open_with(|config| config.database_url = Secret::new(&url)).await;
    sign_up(&instance.stranger(), NAME, PASSWORD).await.expect_status(201);
    let item = instance.make_item(json!({ "stock": 3, "name": "茶壶" })).await;
    let mut orders = Vec::new();
    for (buyer, strategy) in (1..).zip(["mysql-atomic", "mysql-batch"]) {
        orders.push(order_id(&instance.buyer(buyer).buy(strategy, item).await));
    }
    assert_clean(&instance, item).await;
    assert_eq!(check::session_differences(&shop.pool).await.expect("read"), Vec::<String>::new());

    let mut other = MySqlConnection::connect(&url).await.expect("a session");
    let read_only =
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('tx_read_only', 'transaction_read_only')";
    let read_only = sqlx::query_as(read_only).fetch_all(&mut other).await;
    let read_only: Vec<(String, String)> = read_only.expect("shown");
    assert!(read_only.iter().all(|it| it.1 == "ON"), "the server is as others want it");
    let answered =
        orders.iter().map(|order| ("SELECT COUNT(*) FROM orders WHERE id = ?", &**order));
    let account = ("SELECT COUNT(*) FROM users WHERE username = ?", NAME);
    for (count, name) in answered.chain([account]) {
        let there = sqlx::query_scalar(count).bind(name).fetch_one(&mut other).await;
        let there: i64 = there.expect("counted");
        assert_eq!(there, 1, "{name} was answered 201");
    }
}

/// A proxy that drops what a session sets is found by reading it back.
#[tokio::test]
async fn a_session_that_lost_its_settings_is_named() {
    let shop = Shop::new().await;
    let one = mysql_connection::pool_of(&shop.config, 1).expect("the URL is fine");
    assert_eq!(check::session_differences(&one).await.expect("read"), Vec::<String>::new());
    let lose = "SET SESSION autocommit = 0, SESSION time_zone = '+01:00', SESSION sql_mode = ''";
    sqlx::query(lose).execute(&one).await.expect("set");
    let found = check::session_differences(&one).await.expect("read");
    assert_eq!(found, ["autocommit = OFF", "sql_mode = ", "time_zone = +01:00"]);
}
