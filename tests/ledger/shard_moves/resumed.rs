//! Moves that were broken off: the service goes on with them by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::item_move::{Limits, MoveError, Mover};
use serde_json::json;
use shop_domain::ItemId;
use sqlx::mysql::MySqlPoolOptions;

use super::{PAUSE_MAX, Pair, buyers, killed, shard};
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
        let moved = pair.mover().move_item(item, shard(target)).await.expect("it moves");
        assert_eq!(moved.home, shard(target));
    }
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_item_moves_resumed_total 0\n"), "{metrics}");
    pair.assert_lives_in(1, item).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_item_sells_again_while_its_target_is_away() {
    let pair = Pair::new().await;
    let away = MySqlPoolOptions::new()
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy("mysql://seckill:x@127.0.0.1:9/seckill")
        .expect("a URL");
    let ledgers = BTreeMap::from([(shard(0), pair.home.pool.clone()), (shard(1), away.into())]);
    let limits = Limits { pause_max: PAUSE_MAX, route_age_max: Duration::ZERO };
    let mover = Mover::new(ledgers, limits);
    for resumes in [true, false] {
        let item = pair.make_item(5).await;
        let arguments = ["shard", "move", &item.to_string(), "1", "--pause-ms-max", "20000"];
        let (code, text) = killed::run(&pair, &arguments, Some("move-closed")).await;
        assert_eq!(code, -1, "{text}");
        let closed = buyers::route(&pair.home.pool, item.get()).await;
        assert!(pair.buyers().try_buy(closed, item.get(), 1).await.is_none(), "it is not closed");
        let ended = match resumes {
            true => mover.resume(item).await,
            false => mover.give_up(item).await,
        };
        let route = buyers::route(&pair.home.pool, item.get()).await;
        let sold = pair.buyers().try_buy(route, item.get(), 1).await;
        assert!(sold.is_some(), "closed as long as the target is away: {ended:?}");
        match ended {
            Ok(moved) => assert_eq!((resumes, moved.home), (false, shard(0))),
            Err(MoveError::GivenUp { home, .. }) => assert_eq!((resumes, home), (true, shard(0))),
            Err(error) => panic!("{error}"),
        }
        // What was copied is deleted when the target is back.
        pair.mover().resume(item).await.expect("tidied up");
        pair.assert_lives_in(0, item).await;
    }
}
