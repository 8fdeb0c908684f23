//! An instance that hangs in the middle of a draw, and one that works long.

use seckill::failpoint::hold::Director;

use super::*;
use crate::process::program::signal;

/// Enough that the draw takes a moment.
const ENTRIES: i64 = 20_000;

/// The instance has the lock of the draw, and maybe the row of the stock. The ledger ends its sessions; until then the others say
/// that the draw does not go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_goes_on_while_the_instance_that_drew_hangs() {
    let shop = shop().await;
    let idle = idle_instance(&shop).await;
    let item = drawn_with(&idle, 700, 6, json!({ "draw_party_max": 4 })).await;
    insert_entries(&shop.pool, item, ENTRIES).await;
    let hung = serve(&shop, &free_addr(), &[("SECKILL_DRAW_POLL_MS", "50")]).await;
    let pid = hung.id().expect("it runs");
    let placed = "SELECT CAST(placed AS SIGNED) FROM draws WHERE item_id = ?";
    let placed_now = || shop.read(sqlx::query_scalar(placed).bind(item));
    until(RECOVERY_MAX, placed_now, |placed: &i64| *placed > 0).await;
    signal(pid, "STOP").await;
    let placed: i64 = shop.read(sqlx::query_scalar(placed).bind(item)).await;
    assert!(placed < ENTRIES, "it hangs in the middle");
    let healthy = shop.start().await;
    let stranger: Client = healthy.stranger();
    eventually(RECOVERY_MAX, || async {
        let ready = stranger.get("/readyz").await;
        assert_eq!(ready.status, 200, "degraded, not down: {}", ready.text);
        let said = ready.json["jobs"]["draws"].clone();
        when(said["said"].as_str().is_some_and(|said| said.contains("wait for a lock")), said)
    })
    .await;
    until_drawn(&stranger, item).await;
    stranger.until("/readyz", |seen| seen.json["jobs"]["draws"]["ok"] == json!(true)).await;
    assert_clean(&healthy, item).await;
    signal(pid, "KILL").await;
    drop(hung);
}

/// The server ends a session that says nothing for this long, and with it the lock of its draw.
const SILENCE_SECONDS_MAX: i64 = 20;

/// An instance that takes longer over a large list than the server lets a session be silent keeps the lock of the draw:
/// else it would begin again for ever.
#[tokio::test]
async fn an_instance_that_works_long_keeps_the_lock() {
    if !is_whole() {
        return;
    }
    let (shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 1, 3).await;
    let director = Director::of(&[item]);
    assert_eq!(enter(&instance.buyer(1), item).await.status, 200);
    let arrival = director.arrival(item, "draw-entries-read");
    tokio::time::timeout(RECOVERY_MAX, arrival).await.expect("the draw has its lock");
    let begin = shop.number("SELECT UNIX_TIMESTAMP()").await;
    let lock = "SELECT IF(IS_USED_LOCK(CONCAT('seckill-draw-', LEFT(SHA2(CONCAT(DATABASE(), '/', ?), 256), 32))) IS NULL, \
                -1, UNIX_TIMESTAMP() - ?)";
    eventually(RECOVERY_MAX, || async {
        let seconds: i64 = shop.read(sqlx::query_scalar(lock).bind(item).bind(begin)).await;
        assert!(seconds >= 0, "the lock is lost");
        when(seconds > SILENCE_SECONDS_MAX + 2, seconds)
    })
    .await;
    director.release(item);
    until_drawn(&instance.stranger(), item).await;
    assert_clean(&instance, item).await;
}
