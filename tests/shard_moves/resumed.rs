//! Moves that were broken off: the service goes on with them by itself.

use std::time::Duration;

use seckill::domain::ItemId;
use serde_json::json;

use super::{Pair, killed};
use crate::support::{eventually, when};

/// Longer than a move that still copies is left to its operator.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_ends_a_move_whose_mover_was_killed() {
    let mut pair = Pair::new().await;
    pair.home.config.job.move_period_ms = 50;
    let instances = [pair.home.start().await, pair.home.start().await];
    // Before the item is closed, while it is, after the flip, and after the move was given up.
    for (point, pause, home) in [
        ("move-copied", "20000", 1),
        ("move-source-closed", "20000", 1),
        ("move-closed", "20000", 1),
        ("move-verified", "20000", 1),
        ("move-flipped", "20000", 1),
        ("move-removed", "20000", 1),
        ("move-given-up", "0", 0),
    ] {
        let id =
            instances[0].make_item(json!({ "stock": 9, "per_buyer_limit": 9, "shard": 0 })).await;
        let item = ItemId::new(id).expect("positive");
        let buyer = instances[0].buyer(7);
        assert_eq!(buyer.buy("mysql-atomic", id).await.status, 201);
        let item_text = id.to_string();
        let first = ["shard", "move", &item_text, "1", "--pause-ms-max", pause];
        let (code, text) = killed::run(&pair, &first, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
        let under_way = "SELECT COUNT(*) FROM item_moves WHERE item_id = ? AND ended_at IS NULL";
        let ended = eventually(ENDED_WITHIN, || async {
            let count = sqlx::query_scalar(under_way).bind(id).fetch_one(pair.pool(0));
            let count: i64 = count.await.ok()?;
            (count == 0).then_some(())
        });
        ended.await;
        pair.assert_lives_in(home, item).await;
        let sold = eventually("a sale where it lives", || async {
            let sold = buyer.buy("mysql-atomic", id).await;
            when(sold.status == 201, sold.text)
        });
        sold.await;
    }
    let metrics = eventually("the metrics of the moves", || async {
        let mut resumed = 0;
        for instance in &instances {
            let text = instance.stranger().get("/metrics").await.text;
            let line =
                text.lines().find(|line| line.starts_with("seckill_item_moves_resumed_total "));
            resumed += line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())?;
        }
        (resumed == 7).then_some(())
    });
    metrics.await;
    let jobs = instances[0].stranger().get("/readyz").await.json["jobs"].clone();
    assert_eq!(jobs["moves"]["ok"], true, "{jobs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_leaves_a_move_alone_that_somebody_drives() {
    let mut pair = Pair::new().await;
    pair.home.config.job.move_period_ms = 20;
    let instance = pair.home.start().await;
    let id = instance.make_item(json!({ "stock": 9, "shard": 0 })).await;
    let item = ItemId::new(id).expect("positive");
    for target in [1, 0, 1] {
        let moved = pair.mover().move_item(item, super::shard(target)).await.expect("it moves");
        assert_eq!(moved.home, super::shard(target));
    }
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_item_moves_resumed_total 0\n"), "{metrics}");
    pair.assert_lives_in(1, item).await;
}
