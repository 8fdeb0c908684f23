//! An upgrade during a sale: the ledger is migrated by a later build while this one sells.

use std::ops::Range;
use std::sync::atomic::AtomicI64;

use ledger::schema;
use sqlx::Executor;
use tokio::time::timeout;

use super::draw::{self, drawn_item};
use crate::process::program::signal;
use crate::support::prelude::*;

/// What the migrations of a later build may do while this build sells: add tables, columns with a
/// default, and indexes. docs/operations.md promises it.
const EXPANSIONS: [&str; 5] = [
    "CREATE TABLE of_a_later_build (id BIGINT PRIMARY KEY) ENGINE = InnoDB",
    "ALTER TABLE orders ADD COLUMN of_a_later_build VARCHAR(32) NULL",
    "ALTER TABLE items ADD COLUMN of_a_later_build BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE stock ADD COLUMN of_a_later_build BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE stock_movements ADD COLUMN of_a_later_build BIGINT NOT NULL DEFAULT 0",
];
/// Buyers of each strategy.
const BUYERS: i64 = 120;
/// Units of each item.
const STOCK: i64 = 80;

/// A row of sqlx's table of migrations, as a later build writes it.
const LATER: &str = "INSERT INTO _sqlx_migrations \
     (version, description, installed_on, success, checksum, execution_time) \
     VALUES (9998, 'a later one', NOW(), TRUE, '', 0)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_build_migrates_while_this_one_sells_and_an_instance_is_replaced() {
    let (shop, maker) = Shop::open().await;
    let mut items = Vec::new();
    for strategy in ["lock-redis", "mysql-batch", "mysql-atomic"] {
        items.push((strategy, maker.make_item(json!({ "stock": STOCK })).await));
    }
    let (first, second) = (free_addr(), free_addr());
    let mut earlier = serve(&shop, &first, &[]).await;
    let mut later = serve(&shop, &second, &[]).await;
    let sales = items.iter().map(|(strategy, item)| {
        let presses = (1..=BUYERS).map(|id| {
            let addr = if id % 2 == 0 { &second } else { &first };
            let token = maker.token(id, Role::Buyer);
            let client = Client::new(addr.parse().expect("an address"), Some(token));
            press(client, purchase_path(strategy, *item), format!("key-{strategy}-{id}"))
        });
        join_all(presses.map(tokio::spawn))
    });
    let sales = join_all(sales);
    let migration = async {
        for statement in EXPANSIONS {
            eventually("a step of the migration", || async {
                // A deadlock or a lock wait is tried again, as an operator would.
                let done = sqlx::query(statement).execute(&shop.pool).await.map(drop);
                done.or_else(|error| match error.to_string() {
                    text if text.contains("Duplicate column") => Ok(()),
                    text => Err(text),
                })
            })
            .await;
        }
        shop.change(sqlx::query(LATER)).await;
    };
    let (ended, ()) = tokio::join!(sales, migration);
    for ((strategy, _), ended) in items.iter().zip(ended) {
        let accepted = ended.iter().filter(|press| matches!(press, Ok((Some(_), 201)))).count();
        assert_eq!(accepted, usize::try_from(STOCK).expect("small"), "{strategy}: {ended:?}");
    }
    // The earlier instance leaves politely; the other one goes on.
    signal(earlier.id().expect("running"), "TERM").await;
    assert_eq!(earlier.wait().await.expect("ended").code(), Some(0));
    Client::new(second.parse().expect("an address"), None).get("/readyz").await.expect_status(200);
    for (_, item) in items {
        assert_clean(&maker, item).await;
    }
    later.kill().await.expect("ended");
}

/// From the indexes and tables of this build back to those of the build before.
const OF_THE_BUILD_BEFORE: [&str; 5] = [
    "ALTER TABLE orders ADD UNIQUE KEY orders_request (user_id, item_id, request_key)",
    "ALTER TABLE orders DROP KEY orders_item_request",
    "ALTER TABLE orders DROP KEY orders_buyer",
    "CREATE TABLE room_openings (item_id BIGINT NOT NULL PRIMARY KEY)",
    "UPDATE schema_needs SET known_version_min = 1",
];

/// Makes of a ledger what an earlier build had.
async fn execute_all(shop: &Shop, statements: &[&str]) {
    for statement in statements {
        shop.pool.execute(*statement).await.expect("as before");
    }
}

/// The names of the indexes of `orders`.
async fn indexes(shop: &Shop) -> Vec<String> {
    let names = "SELECT DISTINCT CAST(index_name AS CHAR) AS name FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name = 'orders' ORDER BY name";
    shop.read_all(sqlx::query_scalar(names)).await
}

/// The order of a buyer's key, which is made now or was before.
async fn order_of_key(instance: &Instance, (strategy, item): (&str, i64), buyer: i64) -> String {
    let ended = press(instance.buyer(buyer), purchase_path(strategy, item), "k".to_owned()).await;
    ended.0.unwrap_or_else(|| panic!("{strategy}: {}", ended.1))
}

/// Each buyer buys with a key, and asks again with the same key, while `change` goes on.
async fn sells_during(
    instance: &Instance,
    (item, buyers): (i64, Range<i64>),
    change: impl Future<Output = Result<(), String>>,
) {
    let strategies = ["mysql-batch", "mysql-atomic", "lock-redis"].into_iter().cycle();
    let presses = buyers.zip(strategies).map(|(id, strategy)| async move {
        let order = order_of_key(instance, (strategy, item), id).await;
        assert_eq!(order_of_key(instance, (strategy, item), id).await, order, "{strategy}");
    });
    let (_, changed) = tokio::join!(join_all(presses), change);
    changed.expect("the indexes are changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_indexes_of_orders_are_replaced_during_a_sale() {
    let (shop, instance) = Shop::open().await;
    let new = indexes(&shop).await;
    assert_eq!(new, ["orders_buyer", "orders_item_request", "orders_item_status", "PRIMARY"]);
    execute_all(&shop, &OF_THE_BUILD_BEFORE).await;
    let item = instance.make_item(json!({ "stock": 1_000, "per_buyer_limit": 2 })).await;
    let buyers = 1..31;
    sells_during(&instance, (item, buyers.clone()), async { Ok(()) }).await;
    // As the build before has written them.
    shop.pool.execute("UPDATE orders SET buyer_bucket = 0").await.expect("written before");
    // Twice, the second time as after a migration that was broken off.
    sells_during(&instance, (item, 31..61), schema::migrate(&shop.config, &shop.pool)).await;
    shop.pool.execute("ALTER TABLE orders DROP KEY orders_buyer").await.expect("broken off");
    sells_during(&instance, (item, 61..91), schema::migrate(&shop.config, &shop.pool)).await;
    assert!(indexes(&shop).await.contains(&"orders_request".to_owned()), "a build before sells");
    sells_during(&instance, (item, 91..121), schema::contract(&shop.config, &shop.pool)).await;
    schema::contract(&shop.config, &shop.pool).await.expect("contracted already");
    assert_eq!(indexes(&shop).await, new);
    let gone = sqlx::query("SELECT 1 FROM room_openings").execute(&shop.pool).await;
    assert!(gone.is_err(), "a table of earlier builds is left");
    // Keys of before are the same orders, and both kinds of orders are listed.
    for id in buyers {
        let before = order_of_key(&instance, ("mysql-batch", item), id).await;
        let second = instance.buyer(id).buy("mysql-batch", item).await.expect_status(201);
        let listed = instance.buyer(id).get("/api/orders").await.json;
        let listed = listed["orders"].as_array().expect("a list");
        let ids: Vec<_> = listed.iter().map(|order| order["id"].as_str()).collect();
        assert_eq!(ids, [second.json["id"].as_str(), Some(before.as_str())]);
    }
    assert_clean(&instance, item).await;
}

/// What a build with a currency of the shop for items of earlier ones has.
const SHOP_CURRENCY: &str = "CREATE TABLE shop_currency (id TINYINT NOT NULL PRIMARY KEY, \
     code CHAR(3) CHARACTER SET ascii NOT NULL) ENGINE = InnoDB";

#[tokio::test]
async fn an_item_without_a_currency_gets_the_shops() {
    let (shop, instance) = Shop::open().await;
    instance.make_item(json!({})).await;
    let without = [
        SHOP_CURRENCY,
        "INSERT INTO shop_currency (id, code) VALUES (1, 'CHF')",
        "UPDATE items SET currency = NULL",
        "DELETE FROM _sqlx_migrations WHERE version = 51",
    ];
    execute_all(&shop, &without).await;
    schema::migrate(&shop.config, &shop.pool).await.expect("migrated");
    assert_eq!(shop.number("SELECT COUNT(*) FROM items WHERE currency = 'CHF'").await, 1);
}

/// As a crash leaves them: each is written down and has no mark, and of two of them only the first statement is done.
#[tokio::test]
async fn migrations_that_were_broken_off_go_on() {
    let shop = Shop::new().await;
    let broken_off = [
        "ALTER TABLE items DROP COLUMN first_stock",
        OF_SEVERAL_LEDGERS[0],
        SHOP_CURRENCY,
        "UPDATE _sqlx_migrations SET success = FALSE WHERE version >= 40 OR version = 18",
    ];
    execute_all(&shop, &broken_off).await;
    schema::migrate(&shop.config, &shop.pool).await.expect("they go on");
    assert_eq!(schema::schema_state(&shop.pool).await.expect("read"), schema::SchemaState::Current);
    for done in ["SELECT first_stock FROM items", "SELECT home_epoch FROM stock"] {
        shop.pool.execute(done).await.expect("the further statements are done");
    }
}

/// Waits until the session with the lock of a migration has given a sign of life: it was silent for a shorter time than
/// a moment ago.
async fn until_lock_is_kept(shop: &Shop) {
    let silent = "SELECT CAST(COALESCE(MAX(TIME), -1) AS SIGNED) FROM information_schema.PROCESSLIST \
         WHERE ID = IS_USED_LOCK(CONCAT('seckill-', LEFT(SHA2(DATABASE(), 256), 32)))";
    let before = AtomicI64::new(-1);
    eventually("a sign of life of the lock's session", || async {
        let seconds = shop.number(silent).await;
        when((0..before.swap(seconds, Ordering::Relaxed)).contains(&seconds), seconds)
    })
    .await;
}

/// A change of a table waits for whoever uses it, and purchases would wait behind the change: a migration for `outbox`,
/// then the making of an index for `orders`. However long it takes, the lock is kept by which the migration is alone:
/// its session is never silent for as long as the server allows.
#[tokio::test]
async fn a_migration_that_waits_for_a_table_holds_nobody_else_and_keeps_its_lock() {
    let shop = Shop::new().await;
    let undo = [
        "ALTER TABLE outbox DROP COLUMN item_id",
        "DELETE FROM _sqlx_migrations WHERE version = 50",
        "ALTER TABLE orders DROP KEY orders_buyer",
    ];
    execute_all(&shop, &undo).await;
    let mut holders = Vec::new();
    for table in ["outbox", "orders"] {
        let mut holder = patient_transaction(&shop.pool).await;
        let using = format!("SELECT COUNT(*) FROM {table}");
        sqlx::query(&using).fetch_one(&mut *holder).await.expect("the table is used");
        holders.push((table, using, holder));
    }
    let release = async {
        for (table, using, holder) in holders {
            until_running(&shop.pool, &format!("%ALTER %TABLE {table}%"), 1).await;
            let read = timeout(BOUND, shop.pool.execute(&*using)).await;
            read.expect("nobody waits behind the change").expect("read");
            if table == "orders" {
                until_lock_is_kept(&shop).await;
            }
            holder.rollback().await.expect("no longer used");
        }
    };
    let (migrated, ()) = tokio::join!(schema::migrate(&shop.config, &shop.pool), release);
    migrated.expect("the column and the index are made");
    assert!(indexes(&shop).await.contains(&"orders_buyer".to_owned()));
}

/// Runs the program with everything in its log; its exit code and what it says.
async fn run_logged(shop: &Shop, arguments: &[&str]) -> (i32, String) {
    let output = program(shop, arguments).env("SECKILL_LOG_FILTER", "info").output().await;
    told(&output.expect("it runs"))
}

#[tokio::test]
async fn what_is_left_to_remove_is_said_only_where_it_is_left() {
    let shop = Shop::new().await;
    execute_all(&shop, &OF_THE_BUILD_BEFORE).await;
    for (arguments, is_left) in
        [(&["migrate"][..], true), (&["migrate", "--contract"], false), (&["migrate"], false)]
    {
        let (code, text) = run_logged(&shop, arguments).await;
        assert_eq!((code, text.contains("--contract")), (0, is_left), "{arguments:?}: {text}");
    }
}

/// What builds with an archive of orders and endpoints that are Redis streams need.
const OF_BUILDS_WITH_AN_ARCHIVE: [&str; 5] = [
    "CREATE TABLE archives (item_id BIGINT NOT NULL PRIMARY KEY) ENGINE = InnoDB",
    "ALTER TABLE stock ADD COLUMN archive TINYINT UNSIGNED NOT NULL DEFAULT 0",
    "ALTER TABLE event_endpoints ADD COLUMN kind VARCHAR(16) NOT NULL DEFAULT 'webhook'",
    "INSERT INTO archives (item_id) VALUES (7)",
    "INSERT INTO event_endpoints (kind, target, secret, enabled, delivered, next_try_at, claimed_until, created_at) \
     VALUES ('redis-stream', 'back-office', '', FALSE, 0, NOW(6), NOW(6), NOW(6)), \
       ('webhook', 'https://shop.example/', 's', TRUE, 0, NOW(6), NOW(6), NOW(6))",
];

#[tokio::test]
async fn orders_in_files_stop_an_upgrade_and_endpoints_that_were_streams_go_with_it() {
    let shop = Shop::new().await;
    execute_all(&shop, &OF_BUILDS_WITH_AN_ARCHIVE).await;
    for arguments in [&["migrate"][..], &["migrate", "--contract"]] {
        let (code, text) = run_logged(&shop, arguments).await;
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("orders of items (1) have left the ledger for files"), "{text}");
    }
    shop.pool.execute("DELETE FROM archives").await.expect("loaded again");
    let (code, text) = run_logged(&shop, &["migrate"]).await;
    assert!(code == 0 && text.contains("1 endpoints of events are Redis streams"), "{text}");
    let (code, text) = run_logged(&shop, &["migrate", "--contract"]).await;
    assert_eq!(code, 0, "{text}");
    let left = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() \
         AND (table_name = 'archives' OR (table_name = 'stock' AND column_name = 'archive') \
          OR (table_name = 'event_endpoints' AND column_name = 'kind'))";
    let left = shop.number(left).await;
    let targets: Vec<String> =
        shop.read_all(sqlx::query_scalar("SELECT target FROM event_endpoints")).await;
    assert_eq!((left, targets), (0, vec!["https://shop.example/".to_owned()]));
}

/// What a build that knew several ledgers has left in the first of them.
const OF_SEVERAL_LEDGERS: [&str; 4] = [
    "CREATE TABLE item_homes (item_id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, \
     shard SMALLINT UNSIGNED NOT NULL, epoch BIGINT UNSIGNED NOT NULL DEFAULT 1) ENGINE = InnoDB",
    "CREATE TABLE item_moves (item_id BIGINT NOT NULL, epoch BIGINT UNSIGNED NOT NULL, \
     ended_at DATETIME(6) NULL, PRIMARY KEY (item_id, epoch)) ENGINE = InnoDB",
    "ALTER TABLE stock ADD COLUMN home_epoch BIGINT UNSIGNED NOT NULL DEFAULT 1",
    "INSERT INTO item_homes (item_id, shard) SELECT id, 0 FROM items",
];
/// Tables and columns of [`OF_SEVERAL_LEDGERS`] that are there.
const LEFT_OF_THEM: &str = "SELECT \
     (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
       AND table_name IN ('item_homes', 'item_moves')) + \
     (SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() \
       AND table_name = 'stock' AND column_name = 'home_epoch')";

/// A build that knows one ledger refuses what it could not sell, and takes the rest.
#[tokio::test]
async fn a_shop_with_items_in_other_ledgers_is_not_migrated() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 9 })).await;
    shop.make_operator().await;
    execute_all(&shop, &OF_SEVERAL_LEDGERS).await;
    for (plant, remove, sentence) in [
        (
            "INSERT INTO item_homes (item_id, shard) VALUES (4711, 1)",
            "DELETE FROM item_homes WHERE item_id = 4711",
            "items live in another ledger, and this build knows one: 4711;",
        ),
        (
            "INSERT INTO item_moves VALUES (4711, 2, NULL)",
            "DELETE FROM item_moves",
            "items are being moved to another ledger: 4711;",
        ),
    ] {
        shop.pool.execute(plant).await.expect("planted");
        for arguments in [&["migrate"][..], &["migrate", "--contract"]] {
            run_says(&shop, arguments, (2, sentence)).await;
        }
        shop.pool.execute(remove).await.expect("removed");
    }
    let left = async || -> i64 { shop.read(sqlx::query_scalar(LEFT_OF_THEM)).await };
    for (buyer, arguments, expected) in
        [(1, &["migrate"][..], 3), (2, &["migrate", "--contract"], 0)]
    {
        let (code, text) = run(&shop, arguments).await;
        assert_eq!((code, left().await), (0, expected), "{arguments:?}: {text}");
        instance.buyer(buyer).buy("mysql-batch", item).await.expect_status(201);
    }
    assert_clean(&instance, item).await;
}

/// A draw as the build before signed lists has it: with a secret seed.
const OF_DRAWS_WITH_A_SEED: [&str; 3] = [
    "ALTER TABLE draws DROP COLUMN shop_key, DROP COLUMN head, DROP COLUMN paused_at",
    "UPDATE draws SET seed = REPEAT('07', 32), commitment = REPEAT('08', 32), rules = 'draw-rules 1\n'",
    "DELETE FROM _sqlx_migrations WHERE version = 44",
];
const DRAW_IS_OVER: &str = "UPDATE draws SET closed_at = closes_at, listed_at = closes_at, entries = 1, \
     root = REPEAT('09', 32), beacon_signature = REPEAT('10', 64), beacon_value = REPEAT('11', 32), placed = 1, \
     drawn_at = closes_at";

/// And one of them that is due.
const OPEN_AGAIN: &str =
    "UPDATE draws SET drawn_at = NULL, listed_at = NULL, closes_at = UTC_TIMESTAMP(6)";

/// This build does not know how to end a draw that another one has announced, and says of one that is over that it has
/// no proof.
#[tokio::test]
async fn draws_with_a_seed_end_before_an_upgrade_and_have_no_proof() {
    let (shop, instance) = Shop::open().await;
    let item = drawn_item(&instance, 1, 600).await;
    assert_eq!(draw::enter(&instance.buyer(1), item).await.status, 200);
    instance.stop().await;
    execute_all(&shop, &OF_DRAWS_WITH_A_SEED).await;
    let sentence = format!("draws that an earlier build has announced are not over: {item};");
    run_says(&shop, &["migrate"], (2, &sentence)).await;
    shop.pool.execute(DRAW_IS_OVER).await.expect("ended");
    run_says(&shop, &["migrate"], (0, "")).await;

    let instance = shop.start().await;
    let stranger = instance.stranger();
    let draw = stranger.get(&format!("/api/items/{item}/draw")).await.json;
    assert_eq!((&draw["state"], &draw["proof"]), (&json!("drawn"), &json!("none")));
    for path in ["entries", "announcement"] {
        let refused = stranger.get(&format!("/api/items/{item}/draw/{path}")).await;
        assert_problem(&refused, (409, "no_proof"), "of an earlier build");
    }
    let entry = instance.buyer(1).get(&format!("/api/items/{item}/entry")).await.json;
    assert_eq!((&entry["status"], &entry["promise"]), (&json!("entered"), &Value::Null));
    let kept =
        "SELECT COUNT(*) FROM draws WHERE seed = REPEAT('07', 32) AND rules = 'draw-rules 1\n'";
    assert_eq!(shop.number(kept).await, 1, "its row stays");

    // The build before goes on for a while beside this one, and announces a draw.
    shop.pool.execute(OPEN_AGAIN).await.expect("open");
    stranger.until_said("draws", "1 of 1 draws failed").await;
    run_says(&shop, &["migrate"], (2, &sentence)).await;
}
