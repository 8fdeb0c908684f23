//! Several draws at the same time.

use sqlx::Executor;

use super::{drawn_item, insert_entries, shop};
use crate::support::{eventually, when};

/// Its places take at least twelve seconds.
const ENTRIES: i64 = 6_000;

/// A list that is published after the round is late for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_does_not_wait_for_the_places_of_another_draw() {
    let (shop, instance) = shop().await.opened().await;
    let slow = drawn_item(&instance, 1, 6).await;
    insert_entries(&shop.pool, slow, ENTRIES).await;
    let trigger = format!(
        "CREATE TRIGGER slow BEFORE UPDATE ON draws FOR EACH ROW \
         SET @slept = IF(NEW.item_id = {slow} AND NEW.placed > OLD.placed, SLEEP(1), 0)"
    );
    shop.pool.execute(sqlx::raw_sql(&trigger)).await.expect("the trigger is made");
    let placed = "SELECT CAST(placed AS SIGNED) FROM draws WHERE item_id = ?";
    eventually("a place", || async {
        let placed: i64 = shop.read(sqlx::query_scalar(placed).bind(slow)).await;
        when(placed > 0, placed)
    })
    .await;
    let quick = drawn_item(&instance, 1, 3).await;
    let listed = "SELECT COUNT(*) FROM draws WHERE item_id = ? AND listed_at IS NOT NULL";
    eventually("the list", || async {
        let listed: i64 = shop.read(sqlx::query_scalar(listed).bind(quick)).await;
        when(listed == 1, listed)
    })
    .await;
    let placed: i64 = shop.read(sqlx::query_scalar(placed).bind(slow)).await;
    assert!(placed < ENTRIES, "the list waited for the other draw");
}
