//! An item whose orders are archived, or half of them, moves with its sums.

use std::time::{Duration, Instant};

use ledger::Ledger;
use ledger::item_move::audit::misplaced;
use ledger::route::breaker::Breakers;
use ledger::route::{Homes, Shards};
use ledger_audit::{State, homes_of, judge_homes};
use seckill::archive::{ArchiveError, Archiver};
use shop_metrics::Metrics;

use super::buyers::Step;
use super::{Pair, SECOND, shard};
use crate::support::unique;

/// Orders of the item.
const ORDERS: i64 = 9;

#[tokio::test]
async fn an_item_whose_orders_are_half_archived_moves_and_its_archive_goes_on_there() {
    let pair = Pair::new().await;
    let item = pair.make_item(20).await;
    for buyer in 1..=ORDERS {
        assert!(pair.buyers().buy(item.get(), buyer).await.is_some());
    }
    for step in [Step::Pay, Step::Cancel, Step::Expire].into_iter().cycle().take(9) {
        assert!(pair.buyers().step_any(item.get(), step).await.is_some());
    }
    sqlx::query("UPDATE items SET ends_at = '2021-01-01' WHERE id = ?")
        .bind(item.get())
        .execute(&pair.home.pool)
        .await
        .expect("ended");
    let metrics = Metrics::new();
    let ledgers = [&pair.home.pool, &pair.second.pool]
        .map(|pool| Ledger { pool: pool.clone(), breaker: Breakers::new(&metrics).mysql });
    let homes = Homes::new(ledgers[0].pool.clone(), ledgers[0].breaker.clone(), 2, Duration::ZERO);
    let mut settings = pair.home.config.retention.clone();
    settings.after_days = 30;
    settings.chunk_orders_max = 2;
    settings.dir = std::env::temp_dir().join(unique("archive"));
    let archiver = Archiver::new(Shards::new(homes, ledgers.into()), settings.clone());
    let urls = [&pair.home, &pair.second].map(|shop| shop.config.database_url.reveal().to_owned());

    let (there, later) = (shard(SECOND), Instant::now() + Duration::from_secs(60));
    // A chunk, a move, a chunk, a move back, and the rest.
    for (target, until) in [(there, Instant::now()), (shard(0), Instant::now()), (there, later)] {
        let archived = archiver.archive(item, until).await.expect("archived");
        assert_eq!(archived.is_ended, until == later, "{archived:?}");
        assert!(archived.orders > 0);
        pair.mover().move_item(item, target).await.expect("it moves");
        pair.assert_lives_in(target.get(), item).await;
        assert!(misplaced(&pair.ledgers()).await.expect("read").is_empty());
        let outside = judge_homes(&homes_of(&urls).await.expect("read"));
        assert_eq!(outside.state, State::Holds, "{:?}", outside.examples);
    }
    let report = seckill::audit::audit(pair.pool(SECOND), None, item).await.expect("read");
    let facts = report.expect("the item").facts;
    assert_eq!((facts.orders, facts.units_sold, facts.movements_sum), (ORDERS, 3, -3));
    assert_eq!(pair.rows(SECOND, item).await.get("orders"), None);
    // A move that is under way keeps archivers away.
    sqlx::query(
        "INSERT INTO item_moves (item_id, epoch, source, target, state, started_at) \
         VALUES (?, 99, 1, 0, 'copying', UTC_TIMESTAMP(6))",
    )
    .bind(item.get())
    .execute(&pair.home.pool)
    .await
    .expect("planted");
    assert!(matches!(archiver.archive(item, later).await, Err(ArchiveError::Busy)));
    std::fs::remove_dir_all(&settings.dir).expect("removed");
}
