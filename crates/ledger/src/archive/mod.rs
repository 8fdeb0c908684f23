//! The archive: orders of ended sales leave the ledger for a file, and their sums stay.
//!
//! | step | what happens | `stock.archive` |
//! |---|---|---|
//! | [`begin`] | under the lock of the stock row, an item is closed on which nothing is open | 1 |
//! | [`copy_rows`] | its rows are read; the caller writes them into a file, and compares the file with [`Sums`] | 1 |
//! | [`record_file`] | the name, the digest and the sums of the file are written down | 1 |
//! | [`remove_chunk`] | orders are deleted with all that belongs to them, and are added to the sums, in one transaction | 1 |
//! | [`end`] | the rest of the item's rows is deleted | 2 |
//!
//! A closed item is not edited (`catalog/edit.rs`), and a late payment takes none of its units (`order/step.rs`):
//! so the file stays complete. Every step may be done again. The rows and the sums add up to the file between any
//! two transactions, and the audit checks it. Each transaction locks the stock row and compares its epoch, so that
//! an item that has moved is not touched. The lock of a move keeps movers and other archivers away.

mod chunk;
mod sums;

use std::sync::LazyLock;
use std::time::Duration;

use futures::TryStreamExt;
use sqlx::{MySqlConnection, MySqlExecutor, Row};
use tokio::sync::mpsc;

use crate::item_move::copy;
use crate::item_move::tables::{ItemTable, RowPolicy};
use crate::rows::item_lock::{ItemLock, Work};
use crate::rows::link::{LONG_READ_MAX, within};
use crate::rows::statement::{Binds, Read, Write};
use crate::rows::{moved, moves};
use crate::{Database, Ledger, RetryPolicy};
use shop_domain::{ItemId, ItemRoute};

use chunk::SAME_ORDER;
pub use chunk::{remove_chunk, sharing};
pub use sums::Sums;

/// The tables whose rows of an item leave: orders, and what belongs to their buyers. Payments stay, so that a
/// payment that is told again is known; and so do a draw and its entries, which buyers check.
const TABLES: [&str; 4] = ["orders", "stock_movements", "buyer_limits", "waiting_list"];
/// How long the rows of one table may take to be read, and written by the caller.
const COPY_MAX: Duration = Duration::from_secs(1_800);
/// Items that one look finds.
const RIPE_MAX: u32 = 100;

/// An item whose orders are being archived, or are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// The file; empty until it is complete.
    pub file: String,
    /// Its SHA-256.
    pub digest: String,
    /// Whether nothing is left to do.
    pub is_ended: bool,
}

from_row!(Archive { file, digest, is_ended });

/// Lists items behind `after` whose sale ended `days` ago and that have something to archive.
pub async fn ripe(pool: &Database, days: u32, after: i64) -> sqlx::Result<Vec<ItemId>> {
    sqlx::query_scalar(
        "SELECT items.id FROM items JOIN stock ON stock.item_id = items.id \
         WHERE items.id > ? AND ends_at < UTC_TIMESTAMP(6) - INTERVAL ? DAY AND archive < 2 \
         AND (archive = 1 OR EXISTS (SELECT 1 FROM orders WHERE orders.item_id = items.id) \
          OR EXISTS (SELECT 1 FROM waiting_list WHERE waiting_list.item_id = items.id)) \
         ORDER BY items.id LIMIT ?",
    )
    .binds((after, days, RIPE_MAX))
    .all(pool)
    .await
}

/// Finds the archive of an item.
pub async fn find(pool: &Database, item: ItemId) -> sqlx::Result<Option<Archive>> {
    let statement = "SELECT file, digest, ended_at IS NOT NULL AS is_ended \
         FROM archives WHERE item_id = ?";
    sqlx::query_as(statement).bind(item.get()).first(pool).await
}

/// Returns whether the orders of an item are archived or being so. The caller has locked the stock row.
pub(crate) async fn is_closed(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<bool> {
    let statement = "SELECT archive > 0 FROM stock WHERE item_id = ?";
    sqlx::query_scalar(statement).bind(item.get()).one(transaction).await
}

/// The right to archive an item: no other archiver and no mover works on it until it is dropped.
#[derive(Debug)]
pub struct ArchiveLock {
    _lock: ItemLock,
}

impl ArchiveLock {
    /// Takes the lock in the home ledger; `None` while another one has it, or a move is under way.
    pub async fn take(home: &Database, item: ItemId) -> sqlx::Result<Option<Self>> {
        let Some(lock) = ItemLock::take_free(home, Work::Move, item).await? else {
            return Ok(None);
        };
        let is_moving = moves::under_way(home, item).await?.is_some();
        Ok((!is_moving).then_some(Self { _lock: lock }))
    }
}

/// Says what keeps an item from being archived; NULL: nothing, or it has begun. The parameters
/// are the days, the days again, and the item.
static WHAT_IS_OPEN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT CASE WHEN archive > 0 THEN NULL \
     WHEN ends_at >= UTC_TIMESTAMP(6) - INTERVAL ? DAY THEN 'its sale has not ended, or not long enough ago' \
     WHEN EXISTS (SELECT 1 FROM orders AS own \
       JOIN orders AS others ON {SAME_ORDER} \
       JOIN items AS their ON their.id = others.item_id \
       WHERE own.item_id = items.id AND own.line_count > 1 AND their.ends_at >= UTC_TIMESTAMP(6) - INTERVAL ? DAY) \
      THEN 'an order of it has a line of an item whose sale has not ended, or not long enough ago' \
     WHEN EXISTS (SELECT 1 FROM draws WHERE draws.item_id = items.id AND drawn_at IS NULL) THEN 'its draw is not over' \
     WHEN offered <> 0 OR EXISTS (SELECT 1 FROM waiting_list WHERE waiting_list.item_id = items.id AND live = 1) \
      THEN 'buyers wait for it' \
     WHEN EXISTS (SELECT 1 FROM redis_queues WHERE redis_queues.item_id = items.id) \
      THEN 'its queue in Redis is open' \
     WHEN EXISTS (SELECT 1 FROM orders WHERE orders.item_id = items.id AND status IN ('queued', 'pending')) \
      THEN 'an order of it is open' \
     WHEN EXISTS (SELECT 1 FROM orders WHERE orders.item_id = items.id AND status = 'paid' \
       AND paid_at > UTC_TIMESTAMP(6) - INTERVAL return_seconds SECOND) \
      THEN 'buyers may give orders of it back' \
     WHEN EXISTS (SELECT 1 FROM orders JOIN payments ON payments.order_id = orders.id \
       WHERE orders.item_id = items.id AND payments.status IN ('refund_wanted', 'refund_requested')) \
      THEN 'a payment of it has to go back' \
     WHEN EXISTS (SELECT 1 FROM event_endpoints JOIN event_log ON position > delivered \
       WHERE enabled AND event_log.created_at <= changed_at) \
      OR EXISTS (SELECT 1 FROM outbox WHERE outbox.created_at <= changed_at) \
      THEN 'events of its time are not delivered' \
     END FROM (SELECT items.id, ends_at, offered, archive, return_seconds, GREATEST( \
       COALESCE((SELECT MAX(created_at) FROM stock_movements WHERE stock_movements.item_id = items.id), ends_at), \
       COALESCE((SELECT MAX(paid_at) FROM orders WHERE orders.item_id = items.id), ends_at)) AS changed_at \
      FROM items JOIN stock ON stock.item_id = items.id WHERE items.id = ?) AS items"
    )
});

/// Says what keeps an item from being archived; `None`: nothing.
pub async fn what_is_open(
    from: impl MySqlExecutor<'_>,
    item: ItemId,
    days: u32,
) -> sqlx::Result<Option<String>> {
    let asked = sqlx::query_scalar(&WHAT_IS_OPEN).binds((days, days, item.get()));
    within(LONG_READ_MAX, asked.fetch_one(from)).await
}

/// Closes an item whose sale ended `days` ago, unless something is open: then it says what, and nothing changed.
pub async fn begin(ledger: &Ledger, routed: ItemRoute, days: u32) -> sqlx::Result<Option<String>> {
    let begin = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            if lock(transaction, routed).await? > 0 {
                return Ok(None);
            }
            let open = what_is_open(&mut **transaction, routed.item, days).await?;
            if open.is_some() {
                return Ok(open);
            }
            sqlx::query("INSERT INTO archives (item_id, started_at) VALUES (?, UTC_TIMESTAMP(6))")
                .bind(routed.item.get())
                .run(&mut **transaction)
                .await?;
            set_archive(transaction, routed.item, 1).await?;
            Ok(None)
        })
    });
    begin.await
}

/// Reads the rows of a closed item that will leave: one JSON object a line, with the name of the table and the
/// text of each column.
pub async fn copy_rows(
    pool: &Database,
    item: ItemId,
    lines: &mpsc::Sender<String>,
) -> sqlx::Result<()> {
    for name in TABLES {
        let layout = copy::layout(pool, of_item(name)).await?;
        let statement = format!(
            "SELECT CAST(JSON_OBJECT('table', '{name}', 'row', {}) AS CHAR) FROM {name} WHERE item_id = ?",
            layout.as_object()
        );
        let query = sqlx::query(&statement).bind(item.get()).persistent(false);
        let read = async {
            let mut rows = query.fetch(pool);
            while let Some(row) = rows.try_next().await? {
                // Without a reader the rest is of no use.
                if lines.send(row.try_get(0)?).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        within(COPY_MAX, read).await?;
    }
    Ok(())
}

/// Adds up the rows of an item that are in the ledger.
pub async fn sums(pool: &Database, item: ItemId) -> sqlx::Result<Sums> {
    Sums::of_rows(&mut *pool.acquire().await?, item).await
}

/// Writes down the file of an item: from now on rows may be deleted. An archiver that was quicker stays first.
pub async fn record_file(
    ledger: &Ledger,
    routed: ItemRoute,
    (file, digest): (&str, &str),
    sums: &Sums,
) -> sqlx::Result<()> {
    let [orders, quantity, amount_cents, movements, delta] = sums.totals();
    let record = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            lock(transaction, routed).await?;
            sqlx::query(
                "UPDATE archives SET file = ?, digest = ?, orders = ?, quantity = ?, amount_cents = ?, \
                 movements = ?, delta = ? WHERE item_id = ? AND file = ''",
            )
            .binds((file, digest, orders, quantity, amount_cents, movements, delta, routed.item.get()))
            .run(&mut **transaction)
            .await
        })
    });
    record.await
}

/// What [`end`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveEnd {
    /// Nothing is left to do.
    Ended,
    /// Rows were deleted, and there may be more.
    More,
    /// Orders are left: each of them has a line of another item that may not leave yet.
    OrdersLeft,
}

/// Deletes at most `limit` rows of each kind that no order of a closed item needs any more, and notes the end
/// when none is left.
pub async fn end(ledger: &Ledger, routed: ItemRoute, limit: u32) -> sqlx::Result<ArchiveEnd> {
    let end = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            let item = routed.item;
            if lock(transaction, routed).await? != 1 || !is_recorded(transaction, item).await? {
                return Ok(ArchiveEnd::Ended);
            }
            // They come back to `remove_chunk`, and their buyers' limits and places stay with them.
            let left = "SELECT EXISTS (SELECT 1 FROM orders WHERE item_id = ?) \
                 OR EXISTS (SELECT 1 FROM stock_movements WHERE item_id = ?)";
            let left = sqlx::query_scalar(left).binds((item.get(), item.get()));
            if left.one(&mut **transaction).await? {
                return Ok(ArchiveEnd::OrdersLeft);
            }
            for name in ["waiting_list", "buyer_limits"] {
                let delete = format!("DELETE FROM {name} WHERE item_id = ? LIMIT ?");
                let deleted = sqlx::query(&delete).binds((item.get(), limit));
                if deleted.changed(&mut **transaction).await? == u64::from(limit) {
                    return Ok(ArchiveEnd::More);
                }
            }
            let ended = "UPDATE archives SET ended_at = UTC_TIMESTAMP(6) WHERE item_id = ?";
            sqlx::query(ended).bind(item.get()).run(&mut **transaction).await?;
            set_archive(transaction, item, 2).await?;
            Ok(ArchiveEnd::Ended)
        })
    });
    end.await
}

/// Locks the stock row of an item, and returns how far its archive has come.
async fn lock(transaction: &mut MySqlConnection, routed: ItemRoute) -> sqlx::Result<u8> {
    let found: Option<(u64, u8)> =
        sqlx::query_as("SELECT home_epoch, archive FROM stock WHERE item_id = ? FOR UPDATE")
            .bind(routed.item.get())
            .first(transaction)
            .await?;
    match found {
        Some((epoch, archive)) if epoch == routed.home.epoch => Ok(archive),
        _ => Err(moved()),
    }
}

async fn is_recorded(transaction: &mut MySqlConnection, item: ItemId) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM archives WHERE item_id = ? AND file <> '')")
        .bind(item.get())
        .one(transaction)
        .await
}

async fn set_archive(
    transaction: &mut MySqlConnection,
    item: ItemId,
    archive: u8,
) -> sqlx::Result<()> {
    let set = "UPDATE stock SET archive = ? WHERE item_id = ?";
    sqlx::query(set).binds((archive, item.get())).run(transaction).await
}

fn of_item(name: &'static str) -> ItemTable {
    ItemTable { name, of_item: "item_id = ?", fate: RowPolicy::Moved }
}
