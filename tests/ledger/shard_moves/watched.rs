//! What the instances tell of a move whose command died.

use serde_json::json;
use shop_domain::ItemId;

use super::{Pair, buyers, killed};
use crate::support::{Instance, eventually, when};

/// Waits until the metrics have this value, or a larger one.
async fn reaches(instance: &Instance, series: &str, least: f64) {
    eventually(series, || async {
        let text = instance.stranger().get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value: f64 = line.and_then(|value| value.parse().ok()).unwrap_or(-1.0);
        when(value >= least, value)
    })
    .await;
}

/// The mover dies between closing the item and writing that into the record, so the record says that the
/// item sells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_a_killed_move_left_closed_is_seen_until_the_move_is_ended() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    let id = instance.make_item(json!({ "stock": 5 })).await;
    let (first, _) = buyers::route(&pair.home.pool, id).await;
    let (item, target) = (id.to_string(), (1 - first).to_string());
    let (code, output) =
        killed::run(&pair, &["shard", "move", &item, &target], Some("move-source-closed")).await;
    assert_ne!(code, 0, "{output}");
    reaches(&instance, "seckill_item_moves_under_way{state=\"copying\"}", 1.0).await;
    reaches(&instance, "seckill_item_moves_closed_seconds", 1.0).await;
    reaches(&instance, "seckill_item_moves_oldest_seconds", 1.0).await;
    let (code, output) = killed::run(&pair, &["shard", "move", &item, "--resume"], None).await;
    assert_eq!(code, 0, "{output}");
    eventually("no move to be under way", || async {
        let text = instance.stranger().get("/metrics").await.text;
        let gone = ["under_way{state=\"copying\"}", "closed_seconds", "oldest_seconds"];
        let is_gone = |name: &&str| text.contains(&format!("seckill_item_moves_{name} 0\n"));
        when(gone.iter().all(is_gone), text)
    })
    .await;
    reaches(&instance, "seckill_item_moves_pause_ms", 1.0).await;
    pair.assert_lives_in(1 - first, ItemId::new(id).expect("positive")).await;
}
