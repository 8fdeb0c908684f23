//! Deletes the rows of an item in the ledger where it does not live.
//!
//! Those of the source go into a table of their own in the same transaction, so that the item can be brought
//! back if the target loses it (`recover.rs`). No list, job or audit looks there.

use crate::Database;
use sqlx::MySqlConnection;

use super::close::{OPEN_COPY, lock_epoch, tried};
use super::copy::{self, Layout};
use super::tables::{ITEM_TABLES, ItemTable, RowPolicy};
use super::{MoveEndpoints, MoveError};
use crate::rows::{kept_rows, transact};
use shop_domain::ItemId;

/// Rows that one transaction deletes.
const ROWS_TOGETHER: u32 = 1_000;

/// What is deleted, where, and beside which stock row.
struct Removal<'a> {
    pool: &'a Database,
    item: ItemId,
    /// Without a stock row of one of these epochs nothing is deleted.
    epochs: &'a [u64],
    /// The epoch of the move under which the rows are kept; `None` for copied rows.
    kept_as: Option<u64>,
}

impl MoveEndpoints<'_> {
    /// Deletes the item at the source, after the flip, and keeps its rows apart.
    pub(super) async fn remove_source(&self) -> Result<(), MoveError> {
        let (pool, item, epoch) = (self.source, self.of.item, self.of.epoch);
        Removal { pool, item, epochs: &[epoch], kept_as: Some(epoch) }.run().await
    }

    /// Deletes the copied rows, after the move was given up: only while the source has the item.
    pub(super) async fn remove_target(&self) -> Result<(), MoveError> {
        self.check_is_at_source().await?;
        let epochs = [OPEN_COPY, self.of.epoch];
        Removal { pool: self.target, item: self.of.item, epochs: &epochs, kept_as: None }
            .run()
            .await
    }
}

impl Removal<'_> {
    /// Deletes an item in chunks. The stock row goes last, so that nothing is left when it is gone. The
    /// item's row goes first: lists and jobs go by it.
    async fn run(&self) -> Result<(), MoveError> {
        let is_row_of_item = |table: &&ItemTable| table.name == "items";
        let others = |table: &&ItemTable| !matches!(table.name, "items" | "stock");
        let first = ITEM_TABLES.iter().filter(is_row_of_item);
        let middle = ITEM_TABLES.iter().rev().filter(others);
        let last = ITEM_TABLES.iter().filter(|table| table.name == "stock");
        for table in first.chain(middle).chain(last) {
            if table.fate == RowPolicy::Shared {
                continue;
            }
            let layout = copy::layout(self.pool, *table).await?;
            loop {
                let rows = tried(|| self.remove_chunk(&layout)).await?;
                failpoint!("move-part-removed");
                if rows < u64::from(ROWS_TOGETHER) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Deletes one chunk of a table, and returns its rows. Without a stock row of these epochs it deletes
    /// nothing: another mover has finished, and the item may live here again.
    async fn remove_chunk(&self, layout: &Layout) -> sqlx::Result<u64> {
        transact(self.pool, |transaction| Box::pin(self.delete(transaction, layout))).await
    }

    async fn delete(
        &self,
        transaction: &mut MySqlConnection,
        layout: &Layout,
    ) -> sqlx::Result<u64> {
        let epoch = lock_epoch(transaction, self.item).await?;
        if !epoch.is_some_and(|epoch| self.epochs.contains(&epoch)) {
            return Ok(0);
        }
        let table = layout.table;
        let chunk =
            format!("{} ORDER BY {} LIMIT {ROWS_TOGETHER}", table.of_item, layout.key_names());
        if let Some(epoch) = self.kept_as {
            let row = (layout.as_object(), table.name, chunk.as_str());
            kept_rows::keep(transaction, self.item, epoch, row).await?;
        }
        let statement = format!("DELETE FROM {} WHERE {chunk}", table.name);
        let deleted = sqlx::query(&statement).bind(self.item.get()).execute(transaction).await?;
        Ok(deleted.rows_affected())
    }
}
