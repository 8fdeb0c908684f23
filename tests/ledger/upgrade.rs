//! An upgrade during a sale: the ledger is migrated by a later build while this one sells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use seckill::account::Role;
use serde_json::json;

use crate::process::program::{free_addr, press, serve, signal};
use crate::support::{Client, Shop, assert_clean, eventually, purchase_path};

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
    let shop = Arc::new(Shop::new().await);
    let maker = shop.start().await;
    for strategy in ["lock-redis", "mysql-batch", "mysql-atomic"] {
        for table in ["orders", "items", "stock", "stock_movements"] {
            let drop = format!("ALTER TABLE {table} DROP COLUMN IF EXISTS of_a_later_build");
            // MySQL has no IF EXISTS here; the column is missing in the first round.
            let _ = sqlx::query(&drop).execute(&shop.pool).await;
        }
        let item = maker.make_item(json!({ "stock": STOCK })).await;
        let (first, second) = (free_addr(), free_addr());
        let mut earlier = serve(&shop, &first, &[]).await;
        let mut later = serve(&shop, &second, &[]).await;
        let path = purchase_path(strategy, item);
        let gone = Arc::new(AtomicBool::new(false));
        let presses = (1..=BUYERS).map(|id| {
            let token = maker.token(id, Role::Buyer);
            let (first, second, path, gone) =
                (first.clone(), second.clone(), path.clone(), Arc::clone(&gone));
            tokio::spawn(async move {
                // A proxy sends nothing more to an instance that stops.
                let addr = if gone.load(Ordering::Relaxed) || id % 2 == 0 { second } else { first };
                let client = Client::new(addr.parse().expect("an address"), Some(token));
                press(client, path, format!("key-{id}")).await
            })
        });
        let presses: Vec<_> = presses.collect();
        let migration = async {
            for statement in ["DROP TABLE IF EXISTS of_a_later_build"].into_iter().chain(EXPANSIONS)
            {
                eventually("a step of the migration", || async {
                    // A deadlock or a lock wait is tried again, as an operator would.
                    match sqlx::query(statement).execute(&shop.pool).await {
                        Ok(_) => Ok(()),
                        Err(error) if error.to_string().contains("Duplicate column") => Ok(()),
                        Err(error) => Err(error.to_string()),
                    }
                })
                .await;
            }
            sqlx::query(LATER).execute(&shop.pool).await.ok();
        };
        let (ended, ()) = tokio::join!(futures::future::join_all(presses), migration);
        let accepted = ended.iter().filter(|press| matches!(press, Ok((Some(_), 201)))).count();
        assert_eq!(accepted, usize::try_from(STOCK).expect("small"), "{strategy}: {ended:?}");
        // The earlier instance leaves politely; the other one goes on.
        gone.store(true, Ordering::Relaxed);
        signal(earlier.id().expect("running"), "TERM").await;
        assert_eq!(earlier.wait().await.expect("ended").code(), Some(0), "{strategy}");
        let ready = Client::new(second.parse().expect("an address"), None).get("/readyz").await;
        assert_eq!(ready.status, 200, "{strategy}: {}", ready.text);
        assert_clean(&maker, item).await;
        later.kill().await.expect("ended");
    }
}
