//! A private Vitess whose items are in shards.

use std::time::Duration;

use dev_servers::{DATABASE, NewShard, ONLY_SHARD, VitessCluster, VitessServer};
use mysql_connection::Database;
use seckill::config::Config;
use settings::Secret;
use sqlx::{Connection, Executor, MySqlConnection, Row};

use super::crowd::endless;
use super::{Instance, Shop, eventually, ledger_copy, when};

/// Makes the tables beside those of the items, on the server behind.
pub async fn make_tables(vitess: &mut VitessServer) {
    let mut config = ledger_copy::config(&vitess.server_url(DATABASE));
    // A migration through vtgate makes no procedure, and a call of one would run beside the shards.
    config.mysql.order_routine = false;
    ledger_copy::migrated(&config).await.close().await;
    // The tablets read the tables when they start.
    vitess.gate().kill().await;
    vitess.gate().restart().await.expect("vtgate starts again");
}

/// A cluster with the items in two shards. All shops share its tables.
pub struct SharedCluster {
    pub url: String,
    /// The MySQL servers behind, for the account that may do everything.
    servers: Vec<String>,
    /// For each server, the statements that empty the tables that were empty at the start.
    emptying: Vec<String>,
    _cluster: VitessCluster,
}

impl SharedCluster {
    /// Starts it. Each shard has one tablet.
    pub async fn start() -> Self {
        let shards = [("-80", 1), ("80-", 1)];
        let cluster = sharded_cluster(1, &shards).await;
        let mut servers = Vec::new();
        let mut emptying = Vec::new();
        for shard in [ONLY_SHARD, "-80", "80-"] {
            let server = cluster.primary_url(shard).await.expect("it has a primary");
            emptying.push(statements_to_empty(&server).await);
            servers.push(server);
        }
        Self { url: cluster.url(), servers, emptying, _cluster: cluster }
    }

    /// Empties the tables for the next shop, once all transactions of the shop before have ended: one that goes on may
    /// write into a table that is empty already.
    pub async fn empty(&self) {
        for server in &self.servers {
            eventually("end of all transactions", || transactions_ended(server)).await;
        }
        for (server, statements) in self.servers.iter().zip(&self.emptying) {
            let mut server = connect(server).await;
            server.execute(sqlx::raw_sql(statements)).await.expect("the tables are emptied");
        }
    }

    /// Whether the connections of a pool lead to this cluster, and not to a server that a test has of its own.
    pub fn is_led_to_by(&self, pool: &Database) -> bool {
        self.url.contains(&format!(":{}/", pool.connect_options().get_port()))
    }

    /// How many sessions are in the middle of a statement that is `LIKE` this.
    pub async fn statements_running(&self, like: &str) -> i64 {
        let counted = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
             WHERE DB = DATABASE() AND ID <> CONNECTION_ID() AND INFO LIKE ?";
        let mut running = 0;
        for server in &self.servers {
            let own = sqlx::query_scalar::<_, i64>(counted).bind(like);
            running += own.fetch_one(&mut connect(server).await).await.expect("the sessions");
        }
        running
    }
}

async fn connect(server: &str) -> MySqlConnection {
    MySqlConnection::connect(server).await.expect("the server answers")
}

/// The pause before the transactions of a server are counted again: it shows the same ones to whoever reads them more
/// often than each 100 ms.
const COUNT_PAUSE: Duration = Duration::from_millis(150);

/// Counts the transactions that are open on a server; `Ok` if there is none.
async fn transactions_ended(server: &str) -> Result<i64, i64> {
    let counted = "SELECT COUNT(*) FROM information_schema.INNODB_TRX";
    let counted = sqlx::query_scalar::<_, i64>(counted);
    let open = counted.fetch_one(&mut connect(server).await).await.expect("the transactions");
    if open > 0 {
        tokio::time::sleep(COUNT_PAUSE).await;
    }
    when(open == 0, open)
}

async fn statements_to_empty(server: &str) -> String {
    let mut server = connect(server).await;
    let names = "SELECT CAST(CONCAT('`', table_name, '`') AS CHAR) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'";
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
    let cluster = sharded_cluster(2, shards).await;
    let set_up = |config: &mut Config| {
        config.database_url = Secret::new(cluster.url());
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
        config.mysql.shared_queues = 4;
        config.events.enabled = tells_events;
    };
    let shop = Shop::with(set_up).await;
    (cluster, shop)
}

/// Starts a cluster with this number of tablets beside the items, with all tables, and these shards of items.
async fn sharded_cluster(tablets: u32, shards: &[NewShard<'_>]) -> VitessCluster {
    let mut cluster = VitessCluster::start_temporary(tablets).await.expect("the cluster starts");
    ledger_copy::migrated(&ledger_copy::config(&cluster.url())).await.close().await;
    cluster.add_items(shards).await.expect("the items get their shards");
    cluster
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
