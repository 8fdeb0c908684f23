//! A private Vitess whose items are in shards.

use dev_servers::{DATABASE, NewShard, VitessCluster, VitessServer};
use ledger::schema;
use seckill::config::Config;
use settings::Secret;
use sqlx::{Executor, Row};

use super::crowd::endless;
use super::{Instance, Shop};

/// Makes the tables beside those of the items, on the server behind.
pub async fn make_tables(vitess: &mut VitessServer) {
    let mut config = Config::defaults();
    config.database_url = Secret::new(vitess.server_url(DATABASE));
    // A migration through vtgate makes none, and a call would run beside the shards.
    config.mysql.order_routine = false;
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    schema::migrate(&config, &pool).await.expect("the schema is made");
    pool.close().await;
    // The tablets read the tables when they start.
    vitess.gate().kill().await;
    vitess.gate().restart().await.expect("vtgate starts again");
}

/// The statements that empty all tables of the server behind that are empty now.
pub async fn emptying(vitess: &VitessServer) -> String {
    let mut server = vitess.operator().await.expect("it answers");
    let names = "SELECT CAST(CONCAT('`', table_schema, '`.`', table_name, '`') AS CHAR) \
         FROM information_schema.tables \
         WHERE table_schema LIKE 'seckill%' AND table_type = 'BASE TABLE'";
    let names: Vec<String> =
        sqlx::query_scalar(names).fetch_all(&mut server).await.expect("the tables are listed");
    // A transaction of the test before may be rolled back only now.
    let mut statements = "SET foreign_key_checks = 0, innodb_lock_wait_timeout = 50".to_owned();
    for name in names {
        let count = format!("SELECT COUNT(*) FROM {name}");
        let rows: i64 = sqlx::query_scalar(&count).fetch_one(&mut server).await.expect("counted");
        if rows == 0 {
            statements += &format!("; DELETE FROM {name}");
        }
    }
    statements
}

/// Starts a cluster with replicas, and a shop that has its items in these shards, and perhaps tells events.
pub async fn clustered_shop(shards: &[NewShard<'_>], tells_events: bool) -> (VitessCluster, Shop) {
    let mut cluster = VitessCluster::start_temporary(2).await.expect("the cluster starts");
    let url = cluster.url();
    let set_up = |config: &mut Config| {
        config.database_url = Secret::new(url.clone());
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
        config.mysql.shared_queues = 4;
        config.events.enabled = tells_events;
    };
    let mut config = Config::defaults();
    set_up(&mut config);
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    schema::migrate(&config, &pool).await.expect("the tables are made");
    pool.close().await;
    cluster.add_items(shards).await.expect("the items get their shards");
    (cluster, Shop::with(set_up).await)
}

/// In which quarter of all places an item lies, from 0.
pub async fn quarter_of(shop: &Shop, item: i64) -> u32 {
    let place = format!("SELECT hex_keyspace_id FROM seckill_items.`hash` WHERE id = {item}");
    let row = shop.pool.fetch_one(sqlx::raw_sql(&place)).await.expect("it has a place");
    let place: String = row.try_get_unchecked(0).expect("a text");
    place.chars().next().and_then(|digit| digit.to_digit(16)).expect("a digit") / 4
}

/// Makes items until there is one for each of these quarters; their ids in the same sequence.
pub async fn items_in(shop: &Shop, instance: &Instance, quarters: &[u32]) -> Vec<i64> {
    let mut items = vec![None; quarters.len()];
    for _ in 0..ITEMS_MAX {
        let item = instance.make_item(endless()).await;
        let quarter = quarter_of(shop, item).await;
        let lacks = |(at, wanted): (usize, &u32)| *wanted == quarter && items[at].is_none();
        if let Some(at) = quarters.iter().enumerate().position(lacks) {
            items[at] = Some(item);
        }
        let all: Option<Vec<i64>> = items.iter().copied().collect();
        if let Some(all) = all {
            return all;
        }
    }
    panic!("{ITEMS_MAX} items leave some of {quarters:?} without one");
}

/// Items that are made until each place has its own.
const ITEMS_MAX: usize = 100;
