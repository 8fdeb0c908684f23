//! A ledger whose items are in two shards: Vitess with its tables of items in a keyspace of their own.

mod asked;

use dev_servers::VitessServer;
use sqlx::{Connection, Row};

use crate::ledger::reparents::can_start;
use crate::support::crowd::{Crowd, ENOUGH, assert_nothing_lost};
use crate::support::prelude::*;
use crate::support::shards::make_tables;

/// The databases of the shards on the server behind.
const SHARDS: [&str; 2] = ["seckill_items_-80", "seckill_items_80-"];
/// Looks until both steps wait, within the time that they may.
const LOOKS_MAX: usize = 50;
/// Items that are made until each shard has one.
const ITEMS_MAX: usize = 30;

/// Vitess with two shards; `None` where this run has none.
async fn two_shards() -> Option<VitessServer> {
    if !can_start() {
        return None;
    }
    Some(VitessServer::start_sharded().await.expect("it starts"))
}

/// A shop over shards.
async fn sharded_shop(vitess: &mut VitessServer) -> Shop {
    make_tables(vitess).await;
    Shop::with(|config| {
        config.database_url = Secret::new(vitess.url());
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
        config.mysql.shared_queues = 2;
    })
    .await
}

/// The number of rows of a table in each shard.
async fn rows_in(vitess: &VitessServer, table: &str) -> Vec<i64> {
    let mut server = vitess.operator().await.expect("it answers");
    let mut rows = Vec::new();
    for shard in SHARDS {
        let count = format!("SELECT COUNT(*) FROM `{shard}`.{table}");
        rows.push(sqlx::query_scalar(&count).fetch_one(&mut server).await.expect("counted"));
    }
    rows
}

/// Makes items until each shard has one; an item of each.
async fn an_item_of_each(vitess: &VitessServer, instance: &Instance, stock: u32) -> [i64; 2] {
    let mut of_each = [None; 2];
    for _ in 0..ITEMS_MAX {
        let before = rows_in(vitess, "items").await;
        let item = instance.make_item(json!({ "stock": stock, "per_buyer_limit": 4 })).await;
        let shard = usize::from(rows_in(vitess, "items").await[1] > before[1]);
        of_each[shard] = Some(item);
        if let [Some(first), Some(second)] = of_each {
            return [first, second];
        }
    }
    panic!("{ITEMS_MAX} items are in one shard");
}

/// The tables of a file for Vitess, each with its columns.
fn tables_of(file: &str) -> BTreeMap<String, Vec<String>> {
    let file: Value = serde_json::from_str(file).expect("JSON");
    let tables = file["tables"].as_object().expect("tables");
    let names = |columns: &Value| {
        let columns = columns.as_array().into_iter().flatten();
        columns.map(|column| column["name"].as_str().expect("a name").to_owned()).collect()
    };
    tables.iter().map(|(name, table)| (name.clone(), names(&table["columns"]))).collect()
}

/// Vitess is told each table of the ledger with its columns, once, and where the tables of items are.
#[tokio::test]
async fn the_files_for_shards_have_the_schema() {
    let shop = Shop::new().await;
    let schema = schema_of(&shop).await;
    let items = tables_of(include_str!("../../deploy/vitess/sharded/items.json"));
    let mut both = tables_of(include_str!("../../deploy/vitess/sharded/main.json"));
    assert_eq!(both.remove("outbox_numbers"), Some(Vec::new()), "the numbers of the outbox");
    assert!(items.keys().all(|table| !both.contains_key(table)), "each table is in one keyspace");
    both.extend(items.clone());
    assert_eq!(both, schema);
    let more = "ALTER TABLE stock ADD COLUMN planted INT NULL";
    sqlx::query(more).execute(&shop.pool).await.expect("planted");
    assert_ne!(both, schema_of(&shop).await, "a column that only the schema has is seen");
    let routing: Value =
        serde_json::from_str(include_str!("../../deploy/vitess/sharded/routing.json"))
            .expect("JSON");
    let rules = routing["rules"].as_array().expect("rules").iter();
    let routed: Vec<String> = rules
        .map(|rule| rule["to_tables"][0].as_str().expect("a table").replace("seckill_items.", ""))
        .collect();
    assert_eq!(routed, items.into_keys().collect::<Vec<_>>());
}

/// The tables of a ledger, each with its columns.
async fn schema_of(shop: &Shop) -> BTreeMap<String, Vec<String>> {
    let read = "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name <> 'order_lines' ORDER BY table_name, ordinal_position";
    let rows: Vec<(String, String)> =
        sqlx::query_as(read).fetch_all(&shop.pool).await.expect("the columns");
    let mut schema: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in rows {
        schema.entry(table).or_default().push(column);
    }
    schema
}

/// Asserts that the tables of the shards are those that `seckill migrate` makes.
async fn assert_same_tables(vitess: &VitessServer) {
    let mut server = vitess.operator().await.expect("it answers");
    for table in tables_of(include_str!("../../deploy/vitess/sharded/items.json")).keys() {
        let mut made: Vec<String> = Vec::new();
        for database in ["seckill", SHARDS[0], SHARDS[1]] {
            let show = format!("SHOW CREATE TABLE `{database}`.{table}");
            let row = sqlx::query(&show).fetch_one(&mut server).await.expect("shown");
            made.push(row.get(1));
        }
        assert!(made.iter().all(|one| *one == made[0]), "{made:?}");
    }
}

/// A payment and a cancellation wait for the order's row at once: one of them changes it, and the other sees that. Vitess leaves
/// the lock out of a statement with a subquery, and then both would.
async fn assert_one_step_counts(vitess: &VitessServer, instance: &Instance, order: &str) {
    let mut holder = vitess.operator().await.expect("it answers");
    let mut look = vitess.operator().await.expect("it answers");
    let mut held = holder.begin().await.expect("begun");
    for shard in SHARDS {
        let lock = format!("SELECT id FROM `{shard}`.orders WHERE id = '{order}' FOR UPDATE");
        sqlx::query(&lock).fetch_optional(&mut *held).await.expect("locked");
    }
    let buyer = instance.buyer(100);
    let steps = async {
        futures::future::join(buyer.step(order, "payment"), buyer.step(order, "cancellation")).await
    };
    let release = async {
        // Not by INNODB_TRX: who reads it every 100 ms or more often gets the same rows for ever.
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
             WHERE ID <> CONNECTION_ID() AND INFO LIKE '%orders%for update%'";
        let mut waiting: i64 = 0;
        for _ in 0..LOOKS_MAX {
            waiting = sqlx::query_scalar(waits).fetch_one(&mut look).await.expect("counted");
            if waiting >= 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        held.rollback().await.expect("released");
        waiting
    };
    let ((paid, cancelled), waiting) = futures::future::join(steps, release).await;
    assert_eq!(waiting, 2, "both wait");
    let mut answers = [paid.status, cancelled.status];
    answers.sort_unstable();
    assert_eq!(answers, [200, 409], "{} {}", paid.text, cancelled.text);
}

/// Orders of items in two shards are written one by one, in batches and under a lock, each in the shard of its item, and
/// also while vtgate is killed. A cart over both is refused, and nothing is bought.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_in_two_shards_are_sold() {
    let Some(mut vitess) = two_shards().await else { return };
    let shop = sharded_shop(&mut vitess).await;
    assert_same_tables(&vitess).await;
    let instance = shop.start().await;
    let items = an_item_of_each(&vitess, &instance, 100).await;
    let mut tasks = JoinSet::new();
    // Each buyer is one person who buys one item: the lock of a buyer lets one purchase pass at a time.
    for (strategy, first) in [("mysql-atomic", 100), ("mysql-batch", 200), ("lock-redis", 300)] {
        for buyer in first..first + 16 {
            for (item, further) in items.into_iter().zip([0, 1_000]) {
                let buyer = instance.buyer(buyer + further);
                tasks.spawn(async move { buyer.buy_for_good(strategy, item).await });
            }
        }
    }
    for answer in tasks.join_all().await {
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    assert_eq!(rows_in(&vitess, "orders").await, [48, 48]);
    for item in items {
        let order = instance.buyer(100).buy("mysql-atomic", item).await;
        let order = order.json["id"].as_str().expect("an id").to_owned();
        assert_one_step_counts(&vitess, &instance, &order).await;
    }
    let lines = items.map(|item| json!({ "item_id": item, "quantity": 1 }));
    let cart = instance.buyer(20).post("/api/reservations", &json!({ "lines": lines })).await;
    assert_eq!(cart.brief(), (409, "items_apart"), "{}", cart.text);
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    vitess.gate().kill().await;
    vitess.gate().restart().await.expect("vtgate starts again");
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_all_clean(&instance, &items).await;
}

/// What all shards are asked together has one right answer: audits of groups, exports, the deletion of a person, and the
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_over_two_shards_are_answered() {
    let Some(mut vitess) = two_shards().await else { return };
    let (shop, instance) = sharded_shop(&mut vitess).await.opened().await;
    let scarce = an_item_of_each(&vitess, &instance, 1).await;
    asked::assert_the_server_says_the_time(&vitess, &shop, scarce).await;
    let group = asked::make_group(&instance).await;
    asked::assert_groups_are_audited(&vitess, &instance, &group).await;
    asked::assert_a_person_is_deleted(&vitess, &instance, &group, scarce).await;
    asked::assert_exports_add_up(&vitess, &instance).await;
}
