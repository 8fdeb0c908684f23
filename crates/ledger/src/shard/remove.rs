//! Deletes the rows of an item in the ledger where it does not live.

use sqlx::{MySqlConnection, MySqlPool};

use super::close::{OPEN_COPY, lock_epoch, tried};
use super::tables::{Fate, ITEM_TABLES, ItemTable};
use super::{Ends, MoveError};
use crate::domain::ItemId;
use crate::store::mysql::begin;

/// Rows that one transaction deletes.
const ROWS_TOGETHER: u32 = 1_000;

impl Ends<'_> {
    /// Deletes the item at the source, after the flip.
    pub(super) async fn remove_source(&self) -> Result<(), MoveError> {
        remove(self.source, self.of.item, &[self.of.epoch]).await
    }

    /// Deletes the copied rows, after the move was given up.
    pub(super) async fn remove_target(&self) -> Result<(), MoveError> {
        remove(self.target, self.of.item, &[OPEN_COPY, self.of.epoch]).await
    }
}

/// Deletes an item in chunks while its stock row has one of these epochs. The stock row goes last, so
/// that nothing is left when it is gone. The item's row goes first: lists and jobs go by it.
async fn remove(pool: &MySqlPool, item: ItemId, epochs: &[u64]) -> Result<(), MoveError> {
    let is_row_of_item = |table: &&ItemTable| table.name == "items";
    let others = |table: &&ItemTable| !matches!(table.name, "items" | "stock");
    let first = ITEM_TABLES.iter().filter(is_row_of_item);
    let middle = ITEM_TABLES.iter().rev().filter(others);
    let last = ITEM_TABLES.iter().filter(|table| table.name == "stock");
    for table in first.chain(middle).chain(last) {
        if table.fate == Fate::Shared {
            continue;
        }
        loop {
            let rows = tried(|| remove_chunk(pool, item, epochs, table)).await?;
            failpoint!("move-part-removed");
            if rows < u64::from(ROWS_TOGETHER) {
                break;
            }
        }
    }
    Ok(())
}

/// Deletes one chunk of a table, and answers its rows. Without a stock row of these epochs it deletes
/// nothing: another mover has finished, and the item may live here again.
async fn remove_chunk(
    pool: &MySqlPool,
    item: ItemId,
    epochs: &[u64],
    table: &ItemTable,
) -> sqlx::Result<u64> {
    let mut transaction = begin(pool).await?;
    let deleted = delete(&mut transaction, item, epochs, table).await;
    transaction.end(deleted).await
}

async fn delete(
    transaction: &mut MySqlConnection,
    item: ItemId,
    epochs: &[u64],
    table: &ItemTable,
) -> sqlx::Result<u64> {
    let epoch = lock_epoch(transaction, item).await?;
    if !epoch.is_some_and(|epoch| epochs.contains(&epoch)) {
        return Ok(0);
    }
    let statement =
        format!("DELETE FROM {} WHERE {} LIMIT {ROWS_TOGETHER}", table.name, table.of_item);
    Ok(sqlx::query(&statement).bind(item.get()).execute(transaction).await?.rows_affected())
}
