//! A shop that sells on one MySQL server moves to a cluster of Vitess during the sale; docs/vitess.md has the steps.

use std::time::Instant;

use dev_servers::{OldServer, VitessCluster};
use mysql_connection::check;
use mysql_connection::engine::Engine;
use sqlx::{Executor, MySqlPool};

use crate::ledger::reparents::{assert_told_once, can_start};
use crate::support::crowd::{Crowd, assert_nothing_lost, endless};
use crate::support::prelude::*;

/// Items of each strategy.
const ITEMS: usize = 2;
/// The pause of a buyer: the sale goes on for minutes, and Vitess reads no more than 100,000 rows at once.
const PAUSE: Duration = Duration::from_millis(250);
/// What makes the view of lines, which Vitess does not copy.
const LINES: &str = include_str!("../../migrations/0028_lines.sql");

/// Makes items, each with the strategy by which it is sold.
async fn sales(instance: &Instance) -> Vec<(&'static str, i64)> {
    let mut sales = Vec::new();
    for strategy in ["mysql-atomic", "mysql-batch"] {
        for _ in 0..ITEMS {
            sales.push((strategy, instance.make_item(endless()).await));
        }
    }
    sales
}

/// The shop at another address.
fn shop_at(shop: &Shop, url: String) -> Shop {
    let mut config = shop.config.clone();
    config.database_url = Secret::new(url);
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    Shop { config, pool }
}

/// What a ledger says of itself, or why it does not.
async fn said_by(pool: &Database) -> String {
    match Engine::read(pool).await {
        Ok(engine) => engine.to_string(),
        Err(error) => error.to_string(),
    }
}

/// Asserts that vtgate serves the old server, whose sessions have the settings that a session sets elsewhere.
async fn assert_old_is_ready(old: &Database) {
    let is_there = |said: &String| said.contains("Vitess, 1 of 1 primaries serve");
    let said = until(RECOVERY_MAX, || said_by(old), is_there).await;
    assert!(said.contains("a commit waits for no replica"), "{said}");
    assert_eq!(check::session_differences(old).await.expect("it answers"), Vec::<String>::new());
    old.close().await;
}

/// Locks the shop's account out of the old server, and waits until nobody uses it: what is written past Vitess after the
/// switch is lost.
async fn lock_out(operator_url: &str) {
    let server = MySqlPool::connect(operator_url).await.expect("the old server answers");
    let lock = "ALTER USER 'seckill'@'localhost', 'seckill'@'127.0.0.1' ACCOUNT LOCK";
    server.execute(sqlx::raw_sql(lock)).await.expect("the account is locked");
    let sessions = || async {
        let count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'seckill'";
        let count = sqlx::query_scalar::<_, i64>(count).fetch_one(&server).await;
        count.expect("the sessions are counted")
    };
    until(RECOVERY_MAX, sessions, |sessions| *sessions == 0).await;
    server.close().await;
}

/// Makes the view of lines.
async fn make_view(shop: &Shop) {
    let begin = LINES.find("CREATE ").expect("a view");
    let make = LINES[begin..].trim_end().trim_end_matches(';');
    shop.pool.execute(sqlx::raw_sql(make)).await.expect("the view is made");
    let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM order_lines");
    let lines = count.fetch_one(&shop.pool).await.expect("the view is read");
    assert!(lines > 0, "no order has a line");
}

/// Asserts that the ledger has as many orders as were accepted: each buyer has repeated each purchase until it was.
async fn assert_no_others(shop: &Shop, accepted: &[(i64, Vec<String>)]) {
    let accepted: usize = accepted.iter().map(|(_, orders)| orders.len()).sum();
    let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM orders");
    let found = count.fetch_one(&shop.pool).await.expect("the orders are counted");
    println!("{accepted} orders were accepted");
    assert_eq!(usize::try_from(found), Ok(accepted));
}

/// The old server becomes a keyspace of Vitess, its tables are copied into another one, the buyers move to vtgate, and
/// then the writes move. Each accepted order is in the new keyspace and told once, nothing else was sold, and the old
/// server is not needed any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_moves_from_one_server() {
    if !can_start() {
        return;
    }
    let old = OldServer::start_temporary().await.expect("the old server starts");
    let operator_url = old.operator_url();
    let (shop, direct) = Shop::open_with(|config| {
        config.database_url = Secret::new(old.url());
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
        config.events.enabled = true;
    })
    .await;
    let sales = sales(&direct).await;
    let first = Crowd::slow(&direct, sales.clone(), PAUSE);
    first.sells_on("on one server").await;
    let mut cluster = VitessCluster::start_temporary(2).await.expect("the cluster starts");
    let tablet = cluster.add_old(old).await.expect("the old server becomes a keyspace");
    assert_old_is_ready(&shop_at(&shop, cluster.old_url()).pool).await;
    let begin = Instant::now();
    cluster.copy_old().await.expect("the tables are copied");
    println!("copied after {:?}", begin.elapsed());
    first.sells_on("with a copy").await;
    // The names of the new keyspace lead to the old server still.
    let moved = shop_at(&shop, cluster.url());
    let through = moved.start().await;
    let second = Crowd::slow(&through, sales, PAUSE);
    second.sells_on("through vtgate").await;
    first.sells_on("past vtgate").await;
    let mut accepted = first.leaves().await;
    direct.stop().await;
    shop.pool.close().await;
    lock_out(&operator_url).await;
    let begin = Instant::now();
    cluster.leave_old().await.expect("the new keyspace serves");
    println!("switched within {:?}", begin.elapsed());
    second.sells_on("after the switch").await;
    cluster.forget_old_tables().await.expect("the move is complete");
    second.sells_on("after the end of the move").await;
    make_view(&moved).await;
    cluster.remove_old(tablet).await.expect("the old keyspace is removed");
    second.sells_on("without the old server").await;
    accepted.extend(second.leaves().await);
    assert_nothing_lost(&moved, &through, &accepted).await;
    assert_no_others(&moved, &accepted).await;
    assert_told_once(&moved, &accepted).await;
    cluster.stop().await;
}
