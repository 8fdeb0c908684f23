//! The load test of orders of several items tells the truth: in its report, and by its exit code.

use super::program::load_test;
use crate::support::prelude::*;

/// Sends 600 orders of three of twelve items.
async fn fire(shop: &Shop, instance: Option<&Instance>, more: &[&str]) -> (i32, String) {
    let url = instance.map(|instance| format!("http://{}", instance.addr));
    let output = load_test(shop)
        .args(["--lines", "3", "--items", "12", "--buyers", "600", "--requests", "600"])
        .args(url.iter().flat_map(|url| ["--url", url]))
        .args(more)
        .env("REDIS_URL", shop.config.redis_url.reveal())
        .env("SECKILL_REDIS_PREFIX", &shop.config.redis.prefix)
        .output();
    told(&output.await.expect("the load test runs"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_are_judged_by_each_of_their_items() {
    let (shop, instance) = Shop::open().await;
    // Enough units for all carts, and one by one; or too few, and many carts in a request.
    for (stock, sold, more) in [
        ("200", "clean: 1800 units sold of 2400 over 12 items", &["--concurrency", "50"][..]),
        ("20", "clean: ", &["--concurrency", "4", "--batch", "64"]),
    ] {
        let more = [more, &["--stock", stock, "--retry", "20"]].concat();
        let (code, text) = fire(&shop, Some(&instance), &more).await;
        assert!(code == 0 && text.contains(sold), "{more:?}: {text}");
        assert!(text.contains("items with half an order 0"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_cart_fails_the_load_test() {
    let (shop, instance) = Shop::open().await;
    let pool = shop.pool.clone();
    let thief = tokio::spawn(async move {
        let take = "DELETE FROM orders WHERE line_count = 3 AND id LIKE '%01' LIMIT 1";
        while sqlx::query(take).execute(&pool).await.expect("deleted").rows_affected() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let more = ["--concurrency", "20", "--stock", "200"];
    let (code, text) = fire(&shop, Some(&instance), &more).await;
    // It has long been stolen, unless the load test ended before it made an order.
    let stolen = tokio::time::timeout(Duration::from_secs(20), thief).await;
    assert!(matches!(stolen, Ok(Ok(()))), "no line was stolen: {text}");
    assert!(code == 1 && text.contains("BROKEN: ") && text.contains("I20"), "{text}");
    // The third item has no line of it any more, so there it is lost.
    assert!(text.contains("items with half an order 2") && text.contains("lost 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_killed_again_and_again_loses_no_cart() {
    let shop = Shop::new().await;
    let more = ["--concurrency", "4", "--batch", "8", "--stock", "200", "--kills", "3"];
    let (code, text) = fire(&shop, None, &more).await;
    let sold = "clean: 1800 units sold of 2400 over 12 items";
    assert!(code == 0 && text.contains(sold), "{text}");
    assert!(text.contains("the service was killed 3 times"), "{text}");
}
