//! The record of accepted fences, as the command of the load test reads it.

use sqlx::Executor;

use crate::process::program::load_test;
use crate::support::prelude::*;

/// The load test reads with statements of its own. A trigger turns the order of the fences round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_test_names_stale_writes() {
    let (shop, instance) = Shop::open().await;
    let url = format!("http://{}", instance.addr);
    let fire = async || {
        let output = load_test(&shop)
            .args(["--stock", "20", "--buyers", "60", "--requests", "60"])
            .args(["--concurrency", "10", "--strategy", "lock-redis", "--url", &url])
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
