//! Reads where the items of several ledgers live, and where rows of them are.
//!
//! It uses `item_homes` and `item_moves` of the first ledger, and of each `items(id)`,
//! `stock(item_id, home_epoch)`, and the `item_id` of `orders`, `stock_movements`, `buyer_limits`,
//! `restocks` and `waiting_list`.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use tokio::time::{sleep, timeout};

use super::{SQL_SECONDS_MAX, unreadable, writer_of};
use crate::{CannotJudge, FoundRows, ItemHome};

/// Readings until none of the homes changes meanwhile, and the pause between two of them.
const READINGS_MAX: u32 = 20;
const READ_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// The homes, and the moves that are under way, by item.
type Homes = (BTreeMap<i64, (u16, u64)>, BTreeMap<i64, (u16, u16, u64)>);

/// Reads every item of the ledgers at these addresses; the first is the home ledger, and each one's
/// place in the list is its number.
pub async fn homes_of(urls: &[String]) -> Result<Vec<ItemHome>, CannotJudge> {
    let mut ledgers = Vec::new();
    for url in urls {
        ledgers.push(writer_of(url).await?);
    }
    for _ in 0..READINGS_MAX {
        let reading = timeout(Duration::from_secs(SQL_SECONDS_MAX), read(&mut ledgers)).await;
        let read = reading
            .map_err(|_| CannotJudge(format!("reading took more than {SQL_SECONDS_MAX} s")))?
            .map_err(|error| unreadable(&error))?;
        if let Some(items) = read {
            return Ok(items);
        }
        sleep(READ_AGAIN_AFTER).await;
    }
    Err(CannotJudge("items move all the time: there is no moment to audit their homes".to_owned()))
}

/// One reading; `None` when an item moved meanwhile.
async fn read(ledgers: &mut [MySqlConnection]) -> Result<Option<Vec<ItemHome>>, sqlx::Error> {
    let Some(first) = ledgers.first_mut() else { return Ok(Some(Vec::new())) };
    let before = homes(first).await?;
    let mut items: BTreeMap<i64, ItemHome> = BTreeMap::new();
    for (shard, ledger) in ledgers.iter_mut().enumerate() {
        let shard = u16::try_from(shard).unwrap_or(u16::MAX);
        for (item, rows, home_epoch) in rows(ledger).await? {
            let empty = || ItemHome { item, home: (0, 1), moving: None, found: Vec::new() };
            let found = &mut items.entry(item).or_insert_with(empty).found;
            found.push(FoundRows { shard, rows, home_epoch });
        }
    }
    let after = match ledgers.first_mut() {
        Some(first) => homes(first).await?,
        None => return Ok(None),
    };
    if before != after {
        return Ok(None);
    }
    let (homes, moving) = after;
    // A number of the first epoch may have been given out for an item that could not be created.
    for (&item, _) in homes.iter().filter(|(_, (_, epoch))| *epoch > 1) {
        let lost = || ItemHome { item, home: (0, 1), moving: None, found: Vec::new() };
        items.entry(item).or_insert_with(lost);
    }
    for item in items.values_mut() {
        item.home = homes.get(&item.item).copied().unwrap_or((0, 1));
        item.moving = moving.get(&item.item).copied();
    }
    Ok(Some(items.into_values().collect()))
}

async fn homes(ledger: &mut MySqlConnection) -> Result<Homes, sqlx::Error> {
    let homes: Vec<(i64, u16, u64)> =
        sqlx::query_as("SELECT item_id, shard, epoch FROM item_homes")
            .fetch_all(&mut *ledger)
            .await?;
    let moving: Vec<(i64, u16, u16, u64)> = sqlx::query_as(
        "SELECT item_id, source, target, epoch FROM item_moves WHERE ended_at IS NULL",
    )
    .fetch_all(ledger)
    .await?;
    let homes = homes.into_iter().map(|(item, shard, epoch)| (item, (shard, epoch)));
    let moving =
        moving.into_iter().map(|(item, source, target, epoch)| (item, (source, target, epoch)));
    Ok((homes.collect(), moving.collect()))
}

/// The items that a ledger has rows of, with their number and the epoch of the stock row.
async fn rows(ledger: &mut MySqlConnection) -> Result<Vec<(i64, i64, Option<u64>)>, sqlx::Error> {
    let tables = ["stock", "orders", "stock_movements", "buyer_limits", "restocks", "waiting_list"];
    let counts: Vec<String> = tables
        .iter()
        .map(|table| {
            format!("SELECT item_id AS item, COUNT(*) AS found FROM {table} GROUP BY item_id")
        })
        .collect();
    let statement = format!(
        "SELECT CAST(item AS SIGNED), CAST(SUM(found) AS SIGNED), CAST(MAX(home_epoch) AS UNSIGNED) \
         FROM (SELECT id AS item, 1 AS found FROM items UNION ALL {}) AS all_rows \
         LEFT JOIN stock ON stock.item_id = item GROUP BY item ORDER BY item",
        counts.join(" UNION ALL ")
    );
    sqlx::query_as(&statement).fetch_all(ledger).await
}
