//! The record of accepted fences, and what audits read of it.

use std::process::Stdio;

use sqlx::Executor;
use tokio::process::Command;

use ledger::schema;

use crate::process::program::{PROGRAM, loadtest};
use crate::support::prelude::*;

/// The counters and sequences of the item's orders, each with the number of fences.
async fn recorded(shop: &Shop, item: i64) -> Vec<(Option<String>, Option<u64>, i64)> {
    let query = "SELECT fence_backend, fence_sequence, COUNT(fence) FROM orders WHERE item_id = ? \
                 GROUP BY fence_backend, fence_sequence ORDER BY fence_backend, fence_sequence";
    sqlx::query_as(query).bind(item).fetch_all(&shop.pool).await.expect("read")
}

/// The load test reads with statements of its own. A trigger turns the order of the fences round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_test_names_stale_writes() {
    let (shop, instance) = Shop::open().await;
    let fire = async || {
        let output = Command::new(loadtest())
            .args(["run", "--stock", "20", "--buyers", "60", "--requests", "60"])
            .args(["--concurrency", "10", "--strategy", "lock-redis", "--seckill", PROGRAM])
            .args(["--url", &format!("http://{}", instance.addr)])
            .env("DATABASE_URL", shop.config.database_url.reveal())
            .env("SECKILL_SECRET", shop.config.secret.reveal())
            .stdin(Stdio::null())
            .output();
        told(&output.await.expect("the load test runs"))
    };
    let (code, text) = fire().await;
    assert!(code == 0 && text.contains("I6   holds"), "{code}: {text}");
    let trigger = "CREATE TRIGGER turned BEFORE INSERT ON orders FOR EACH ROW \
                   SET NEW.fence = 9007199254740991 - NEW.fence";
    shop.pool.execute(sqlx::raw_sql(trigger)).await.expect("the trigger is made");
    let (code, text) = fire().await;
    assert!(code == 1 && text.contains("I6   BROKEN"), "{code}: {text}");
}

/// An order that was written before fences were recorded is not reported as written out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_from_before_the_record_audit_cleanly() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    for buyer in 1..=3 {
        assert_eq!(instance.buyer(buyer).buy("lock-redis", item).await.status, 201);
    }
    // Back to the schema of before, in which the same orders look the same.
    for statement in [
        "ALTER TABLE orders DROP COLUMN fence_backend, DROP COLUMN fence_sequence",
        "ALTER TABLE fences DROP COLUMN accepted_writes",
        "DELETE FROM _sqlx_migrations WHERE version = 8",
    ] {
        shop.pool.execute(statement).await.expect("undone");
    }
    schema::migrate(&shop.config, &shop.pool).await.expect("migrated again");
    assert_eq!(recorded(&shop, item).await, [(None, Some(0), 3)]);
    assert_eq!(instance.broken(item).await, [""; 0]);
    assert_eq!(instance.buyer(4).buy("lock-redis", item).await.status, 201);
    assert_eq!(instance.buyer(5).buy("mysql-atomic", item).await.status, 201);
    let now = recorded(&shop, item).await;
    let plain = (None, None, 0);
    assert_eq!(now, [plain, (None, Some(0), 3), (Some("redis".to_owned()), Some(1), 1)]);
    assert_eq!(instance.broken(item).await, [""; 0]);
    // Their fences are above the accepted one: that was judged before there was a record, too.
    shop.pool.execute("UPDATE fences SET fence = 1").await.expect("planted");
    assert_eq!(instance.broken(item).await, ["I6"]);
}
