//! Several draws at the same time.

use sqlx::Executor;

use super::*;

/// Its places take at least twelve seconds.
const ENTRIES: i64 = 6_000;
/// One more draw than a look for draws listed in earlier builds.
const WAITING: usize = 101;
/// The rounds of draws that a test waits for in vain.
const FAR_SECONDS: i64 = 3_600;

/// A list that is published after the round is late for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_does_not_wait_for_the_places_of_another_draw() {
    let (shop, instance) = shop().await.opened().await;
    let slow = drawn_item(&instance, 1, FAR_SECONDS).await;
    insert_entries(&shop.pool, slow, ENTRIES).await;
    let trigger = format!(
        "CREATE TRIGGER slow BEFORE UPDATE ON draws FOR EACH ROW \
         SET @slept = IF(NEW.item_id = {slow} AND NEW.placed > OLD.placed, SLEEP(1), 0)"
    );
    shop.pool.execute(sqlx::raw_sql(&trigger)).await.expect("the trigger is made");
    close_now(&shop, slow).await;
    let placed = "SELECT CAST(placed AS SIGNED) FROM draws WHERE item_id = ?";
    let placed_now = || shop.read(sqlx::query_scalar(placed).bind(slow));
    until(RECOVERY_MAX, placed_now, |placed: &i64| *placed > 0).await;
    let quick = drawn_item(&instance, 1, 3).await;
    let listed = "SELECT COUNT(*) FROM draws WHERE item_id = ? AND listed_at IS NOT NULL";
    let listed_now = || shop.read(sqlx::query_scalar(listed).bind(quick));
    until("the list", listed_now, |listed: &i64| *listed == 1).await;
    let placed: i64 = shop.read(sqlx::query_scalar(placed).bind(slow)).await;
    assert!(placed < ENTRIES, "the list waited for the other draw");
}

/// All lists are published before the rounds, and draws that wait for their rounds stop no other draw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_that_wait_for_their_rounds_stop_no_other_draw() {
    let (shop, instance) = Shop::open_with(|config| {
        config.sections.set("draw", "poll_ms", 50);
        config.sections.set("draw", "round_after_seconds", FAR_SECONDS);
        config.purchase.item_age_ms_max = 0;
    })
    .await;
    for _ in 0..WAITING {
        drawn_item(&instance, 1, FAR_SECONDS).await;
    }
    shop.change(sqlx::query("UPDATE draws SET closes_at = UTC_TIMESTAMP(6)")).await;
    let unlisted = "SELECT COUNT(*) FROM draws WHERE listed_at IS NULL";
    until(RECOVERY_MAX, || shop.read(sqlx::query_scalar(unlisted)), |left: &i64| *left == 0).await;
    let item = drawn_item(&instance, 1, FAR_SECONDS).await;
    assert_eq!(enter(&instance.buyer(1), item).await.status, 200);
    close_now(&shop, item).await;
    until_drawn(&instance.stranger(), item).await;
    let drawn = "SELECT COUNT(*) FROM draws WHERE drawn_at IS NOT NULL";
    assert_eq!(shop.number(drawn).await, 1, "the others wait for their rounds");
}
