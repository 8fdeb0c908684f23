//! An instance that hangs in the middle of a draw.

use serde_json::json;

use super::{from_now, insert_entries, shop, until_drawn};
use crate::process::program::{free_addr, serve, signal};
use crate::support::crowd::RECOVERY_MAX;
use crate::support::{Client, assert_clean, eventually, when};

/// Enough that the draw takes a moment.
const ENTRIES: i64 = 20_000;

/// The instance has the lock of the draw, and maybe the row of the stock. The ledger ends its sessions; until then the others say
/// that the draw does not go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_goes_on_while_the_instance_that_drew_hangs() {
    let shop = shop().await;
    let idle = shop.start_with({
        let mut config = shop.config.clone();
        // It only makes the item.
        config.sections.set("draw", "poll_ms", 60_000);
        config
    });
    let idle = idle.await;
    let body = json!({
        "kind": "shop", "stock": 700, "strategy": "mysql-batch", "offer_seconds": 600,
        "mode": "draw", "draw_closes_at": from_now(6), "draw_party_max": 4,
    });
    let item = idle.make_item(body).await;
    insert_entries(&shop.pool, item, ENTRIES).await;
    let address = free_addr();
    let hung = serve(&shop, &address, &[("SECKILL_DRAW_POLL_MS", "50")]).await;
    let pid = hung.id().expect("it runs");
    let placed = "SELECT CAST(placed AS SIGNED) FROM draws WHERE item_id = ?";
    eventually(RECOVERY_MAX, || async {
        let placed: i64 = shop.read(sqlx::query_scalar(placed).bind(item)).await;
        when(placed > 0, placed)
    })
    .await;
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
    eventually(RECOVERY_MAX, || async {
        let draw = stranger.get(&format!("/api/items/{item}/draw")).await.json;
        when(draw["state"] == "drawn", draw)
    })
    .await;
    until_drawn(&stranger, item).await;
    eventually("a job that is well", || async {
        let job = stranger.get("/readyz").await.json["jobs"]["draws"].clone();
        when(job["ok"] == json!(true), job)
    })
    .await;
    assert_clean(&healthy, item).await;
    signal(pid, "KILL").await;
    drop(hung);
}
