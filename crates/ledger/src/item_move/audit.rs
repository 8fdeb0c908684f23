//! I15 as the service judges it: an item lives in one ledger, and no other has rows of it.
//!
//! It shares no statement with `crates/ledger-audit`, so that the two can disagree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Database;

use crate::rows::link::{LONG_READ_MAX, within};
use shop_domain::{ItemId, ShardId};

/// Ledgers are read one after the other, so an item may move in between. A fault is reported only if it is still there after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Items with rows in a ledger where they do not live, or without a stock row of their epoch where they do;
/// each with a sentence. A move that is under way is no fault.
pub async fn misplaced(
    ledgers: &BTreeMap<ShardId, Database>,
) -> sqlx::Result<BTreeMap<ItemId, String>> {
    let first = look(ledgers).await?;
    if first.is_empty() {
        return Ok(first);
    }
    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    let mut still = look(ledgers).await?;
    still.retain(|item, sentence| first.get(item) == Some(sentence));
    Ok(still)
}

async fn look(ledgers: &BTreeMap<ShardId, Database>) -> sqlx::Result<BTreeMap<ItemId, String>> {
    let mut wrong = BTreeMap::new();
    let Some(home_ledger) = ledgers.get(&ShardId::HOME) else { return Ok(wrong) };
    let moving = sqlx::query_scalar("SELECT item_id FROM item_moves WHERE ended_at IS NULL");
    let moving: Vec<ItemId> = within(LONG_READ_MAX, moving.fetch_all(home_ledger)).await?;
    let moving: BTreeSet<ItemId> = moving.into_iter().collect();
    let homes = sqlx::query_as("SELECT item_id, shard, epoch FROM item_homes");
    let homes: Vec<(ItemId, ShardId, u64)> =
        within(LONG_READ_MAX, homes.fetch_all(home_ledger)).await?;
    let homes: BTreeMap<ItemId, (ShardId, u64)> =
        homes.into_iter().map(|(item, shard, epoch)| (item, (shard, epoch))).collect();
    let home_of = |item| homes.get(&item).copied().unwrap_or((ShardId::HOME, 1));
    // An item that never moved may be a number that was given out for an item that could not be created.
    let has_moved = |(_, (_, epoch)): &(&ItemId, &(ShardId, u64))| *epoch > 1;
    let mut unseen: BTreeMap<ItemId, ShardId> =
        homes.iter().filter(has_moved).map(|(item, (home, _))| (*item, *home)).collect();
    for (shard, pool) in ledgers {
        let rows = sqlx::query_as(
            "SELECT item_id, CAST(MAX(epoch) AS UNSIGNED) FROM ( \
             SELECT item_id, home_epoch AS epoch FROM stock \
             UNION ALL SELECT DISTINCT item_id, NULL FROM orders \
             UNION ALL SELECT DISTINCT item_id, NULL FROM stock_movements \
             UNION ALL SELECT DISTINCT item_id, NULL FROM buyer_limits \
             UNION ALL SELECT DISTINCT item_id, NULL FROM waiting_list \
             UNION ALL SELECT id, NULL FROM items) AS found GROUP BY item_id",
        );
        let rows: Vec<(ItemId, Option<u64>)> = within(LONG_READ_MAX, rows.fetch_all(pool)).await?;
        for (item, found) in rows.into_iter().filter(|(item, _)| !moving.contains(item)) {
            let (home, epoch) = home_of(item);
            if home == *shard {
                unseen.remove(&item);
            }
            if home != *shard {
                wrong.insert(
                    item,
                    format!("it lives in shard {home}, and has rows in shard {shard}"),
                );
            } else if found != Some(epoch) {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                wrong.insert(
                    item,
                    format!("its route has the epoch {epoch}, and its stock row has {found}"),
                );
            }
        }
    }
    for (item, home) in unseen.into_iter().filter(|(item, _)| !moving.contains(item)) {
        let sentence = format!("it lives in shard {home}, which has no row of it");
        wrong.entry(item).or_insert(sentence);
    }
    Ok(wrong)
}
