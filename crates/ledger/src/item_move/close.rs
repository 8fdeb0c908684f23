//! The two ends of a move: closing the item at the source, and sealing and comparing the copy.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::Database;
use futures::future::{join_all, try_join_all};
use sqlx::{MySqlConnection, MySqlExecutor};

use super::copy::{CHUNK_ROWS, Difference, Layout};
use super::tables::RowPolicy;
use super::{MoveError, Progress};
use crate::rows::link::{LONG_READ_MAX, TRANSACTION_MAX};
use crate::rows::moves::{self, ItemMove};
use crate::rows::statement::Read;
use crate::rows::{Fault, audit, confirmed, transact, within};
use shop_domain::ItemId;

/// The epoch of a stock row at the target while rows are copied: no route ever has it.
pub(super) const OPEN_COPY: u64 = 0;
/// Tries of one short transaction, and the pause between two of them.
const TRIES_MAX: u32 = 5;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// A move with the ledgers at its two ends.
pub(super) struct MoveEndpoints<'a> {
    pub of: ItemMove,
    pub home: &'a Database,
    pub source: &'a Database,
    pub target: &'a Database,
    /// Whether it moves together with all items that share a limit with it.
    pub is_grouped: bool,
    pub layouts: Vec<Layout>,
}

impl MoveEndpoints<'_> {
    /// Returns whether the item is closed at the source by this move.
    pub async fn is_closed(&self) -> sqlx::Result<bool> {
        Ok(epoch_of(self.source, self.of.item).await? == Some(self.of.epoch))
    }

    /// Returns whether the home ledger has forgotten the flip of this move: the target has its sealed copy, and the
    /// source has nothing any more, as it has only behind a flip. An error when no copy of the move is there.
    pub async fn was_flipped(&self) -> Result<bool, MoveError> {
        if epoch_of(self.source, self.of.item).await?.is_some() {
            return Ok(false);
        }
        let is_sealed = self.is_sealed().await?;
        is_sealed.then_some(true).ok_or(MoveError::NotAtSource(self.of.source))
    }

    /// Closes the item at the source. It waits for the transactions that have changed the stock row;
    /// those that come to it afterwards find another epoch, and change nothing.
    pub async fn close(&self) -> Result<(), MoveError> {
        let (_, epoch) = moves::home(self.home, self.of.item).await?;
        let close = || close_source(self.source, &self.of, epoch);
        // An earlier try may have come through.
        let is_closed = tried(close).await? || self.is_closed().await?;
        is_closed.then_some(()).ok_or(MoveError::Superseded)
    }

    /// Notes in the record that the item is closed.
    pub async fn set_closed(&self) -> Result<(), MoveError> {
        if moves::set_closed(self.home, &self.of).await? {
            return Ok(());
        }
        let now = moves::find(self.home, self.of.item, self.of.epoch).await?;
        let is_closed = now.is_some_and(|of| of.state == moves::MoveState::Closed);
        is_closed.then_some(()).ok_or(MoveError::Superseded)
    }

    /// Opens the copy at the target for rows. What an earlier move has left there is overwritten.
    pub async fn open_target(&self) -> Result<(), MoveError> {
        let open = || async move {
            let opened = sqlx::query(
                "INSERT INTO stock (item_id, total, available, home_epoch) VALUES (?, 0, 0, ?) \
                 ON DUPLICATE KEY UPDATE home_epoch = IF(home_epoch < ?, ?, home_epoch)",
            );
            let opened = opened.bind(self.of.item.get()).bind(OPEN_COPY);
            let opened = opened.bind(self.of.epoch).bind(OPEN_COPY);
            confirmed(self.target, opened.execute(self.target)).await
        };
        tried(open).await?;
        let is_open = epoch_of(self.target, self.of.item).await? == Some(OPEN_COPY);
        is_open.then_some(()).ok_or(MoveError::Superseded)
    }

    /// Returns whether the copy at the target is sealed.
    pub async fn is_sealed(&self) -> sqlx::Result<bool> {
        Ok(epoch_of(self.target, self.of.item).await? == Some(self.of.epoch))
    }

    /// Finds the rows that differ, table by table; the stock row is not among them.
    pub async fn compare<'l>(
        &self,
        layouts: impl Iterator<Item = &'l Layout>,
    ) -> Result<Vec<(&'l Layout, Difference)>, MoveError> {
        let compared =
            layouts.filter(|layout| layout.table.name != "stock").map(|layout| async move {
                let difference = layout.compare((self.source, self.target), self.of.item).await?;
                Ok::<_, MoveError>((layout, difference))
            });
        let differences = try_join_all(compared).await?;
        // A source that was replaced by one without the item must not empty the target.
        let at_source = epoch_of(self.source, self.of.item).await?;
        at_source.map(|_| differences).ok_or(MoveError::NotAtSource(self.of.source))
    }

    /// Brings over the rows of one table that differ, in chunks, while the copy is open.
    pub async fn copy(
        &self,
        layout: &Layout,
        difference: &Difference,
        progress: &Progress,
    ) -> Result<(), MoveError> {
        for keys in difference.changed.chunks(CHUNK_ROWS) {
            let changed = Difference::of_changed(keys);
            let one = [(layout, &changed)];
            self.is_open(tried(|| self.write(&one, None)).await?)?;
            failpoint!("move-chunk-copied");
            progress.rows.fetch_add(keys.len(), Ordering::Relaxed);
        }
        for keys in difference.extra.chunks(CHUNK_ROWS) {
            let extra = Difference::of_extra(keys);
            let one = [(layout, &extra)];
            self.is_open(tried(|| self.write(&one, None)).await?)?;
        }
        Ok(())
    }

    /// Brings over the last rows and the stock row, and seals the copy with it.
    pub async fn seal(&self, differences: &[(&Layout, Difference)]) -> Result<(), MoveError> {
        let all: Vec<_> =
            differences.iter().map(|(layout, difference)| (*layout, difference)).collect();
        let stock = self.layouts.iter().find(|layout| layout.table.name == "stock");
        self.is_open(tried(|| self.write(&all, stock)).await?)
    }

    /// Compares both sides once more: rows and digests of every table, and the figures of the audit.
    pub async fn verify(&self) -> Result<usize, MoveError> {
        let item = self.of.item;
        let moved = self.layouts.iter().filter(|layout| layout.table.fate == RowPolicy::Moved);
        let compared = moved.map(|layout| async move {
            let (here, there) =
                tokio::try_join!(layout.sum(self.source, item), layout.sum(self.target, item))?;
            let rows = usize::try_from(here.0).unwrap_or_default();
            if here == there { Ok(rows) } else { Err(MoveError::Unlike(layout.table.name)) }
        });
        let audited = async {
            let (here, there) = tokio::try_join!(
                within(LONG_READ_MAX, audit::facts(self.source, item)),
                within(LONG_READ_MAX, audit::facts(self.target, item))
            )?;
            let is_same = here.is_some() && here == there;
            is_same.then_some(()).ok_or(MoveError::Unlike("items"))
        };
        // All to their ends: a statement that is broken off costs its connection.
        let (compared, audited) = tokio::join!(join_all(compared), audited);
        audited?;
        compared.into_iter().sum()
    }

    /// Lets the item sell at the source again. The epoch of the move is used up, so that another mover
    /// that was asleep can neither close the source with it nor flip.
    pub async fn give_up(&self) -> Result<(), MoveError> {
        let raise = || async move {
            let raised =
                sqlx::query("UPDATE stock SET home_epoch = ? WHERE item_id = ? AND home_epoch < ?");
            let raised = raised.bind(self.of.epoch).bind(self.of.item.get()).bind(self.of.epoch);
            confirmed(self.source, raised.execute(self.source)).await
        };
        tried(raise).await?;
        self.check_is_at_source().await?;
        failpoint!("move-reopening");
        if let Err(error) = moves::give_up(self.home, &self.of).await {
            tracing::warn!(%error, item = %self.of.item, "giving a move up was not answered");
        }
        let now = moves::find(self.home, self.of.item, self.of.epoch).await?;
        failpoint!("move-given-up");
        match now.map(|of| of.state) {
            Some(moves::MoveState::GivenUp) => Ok(()),
            Some(moves::MoveState::Flipped | moves::MoveState::Done) => Err(MoveError::Superseded),
            _ => Err(sqlx::Error::RowNotFound.into()),
        }
    }

    /// Checks that the source has the item with the epoch of this move, so that no other copy is needed.
    pub async fn check_is_at_source(&self) -> Result<(), MoveError> {
        let is_there = self.is_closed().await?;
        is_there.then_some(()).ok_or(MoveError::NotAtSource(self.of.source))
    }

    /// Writes differences at the target in one transaction, and the stock row last if the copy is to be
    /// sealed; `false` when the copy is not open any more: then nothing was written.
    async fn write(
        &self,
        differences: &[(&Layout, &Difference)],
        stock: Option<&Layout>,
    ) -> sqlx::Result<bool> {
        let write = transact(self.target, |transaction| {
            Box::pin(async move {
                if lock_epoch(transaction, self.of.item).await? != Some(OPEN_COPY) {
                    return Ok(false);
                }
                for (layout, difference) in differences {
                    for keys in difference.extra.chunks(CHUNK_ROWS) {
                        layout.delete(transaction, keys).await?;
                    }
                    for keys in difference.changed.chunks(CHUNK_ROWS) {
                        let rows = layout.read(self.source, keys).await?;
                        layout.write(transaction, &rows).await?;
                    }
                }
                if let Some(stock) = stock {
                    // It has the epoch of the move already: so the source was closed.
                    let row = stock.read(self.source, &[self.of.item.to_string()]).await?;
                    stock.write(transaction, &row).await?;
                }
                Ok(true)
            })
        });
        write.await
    }

    fn is_open(&self, is_open: bool) -> Result<(), MoveError> {
        is_open.then_some(()).ok_or(MoveError::Superseded)
    }
}

/// Reads the epoch of an item's stock row; `None` without a row.
pub(super) async fn epoch_of(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Option<u64>> {
    sqlx::query_scalar("SELECT home_epoch FROM stock WHERE item_id = ?")
        .bind(item.get())
        .first(from)
        .await
}

/// Reads the epoch of an item's stock row, and locks the row until the transaction ends.
pub(super) async fn lock_epoch(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Option<u64>> {
    sqlx::query_scalar("SELECT home_epoch FROM stock WHERE item_id = ? FOR UPDATE")
        .bind(item.get())
        .first(transaction)
        .await
}

/// Counts the other items of the groups that the item is or was in.
pub(super) async fn items_of_its_groups(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT COUNT(DISTINCT others.item_id) FROM limit_group_items AS own \
         JOIN limit_group_items AS others ON others.group_id = own.group_id \
         WHERE own.item_id = ? AND others.item_id <> own.item_id",
    )
    .bind(item.get())
    .one(from)
    .await
}

/// Counts the orders that have a line of the item and lines of others.
pub(super) async fn orders_with_others(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<i64> {
    let counted =
        sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE item_id = ? AND line_count > 1")
            .bind(item.get())
            .fetch_one(from);
    within(LONG_READ_MAX, counted).await
}

/// Closes an item at the source, where its routes have the epoch `from`, and returns whether this call did. The
/// epoch only rises: a mover that was asleep while later moves came must not make an old route valid again.
pub async fn close_source(source: &Database, of: &ItemMove, from: u64) -> sqlx::Result<bool> {
    let closed = sqlx::query(
        "UPDATE stock SET home_epoch = ? WHERE item_id = ? AND home_epoch = ? AND home_epoch < ?",
    );
    let closed = closed.bind(of.epoch).bind(of.item.get()).bind(from).bind(of.epoch);
    Ok(confirmed(source, closed.execute(source)).await?.rows_affected() == 1)
}

/// Runs a short transaction, again after a conflict with another one. It is boxed, or the futures of all movers
/// would be larger.
pub(super) async fn tried<T, W>(mut work: impl FnMut() -> W) -> sqlx::Result<T>
where
    W: Future<Output = sqlx::Result<T>>,
{
    for _ in 1..TRIES_MAX {
        match within(TRANSACTION_MAX, Box::pin(work())).await {
            Err(error) if Fault::of(&error) == Fault::Transient => {
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
            }
            ended => return ended,
        }
    }
    within(TRANSACTION_MAX, Box::pin(work())).await
}
