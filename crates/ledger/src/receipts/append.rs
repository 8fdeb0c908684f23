//! Appends what waits to the logs, and signs them.

use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};
use time::OffsetDateTime;
use tokio::task::spawn_blocking;

use super::queue::NOW;
use crate::rows::items::datetime;
use crate::rows::statement::{Binds, Read, Write, in_list};
use crate::rows::{moved, receipts::LogRow};
use crate::{Ledger, RetryPolicy};
use sale_log::{Frontier, Head, Salt, SigningKeys, Sums, leaf};
use shop_domain::{ItemId, ItemRoute};

/// Rows of the queue that one batch takes: a row has the orders of one transaction.
const ROWS_MAX: u32 = 2_000;
/// Entries of a batch, after which no further row is added.
const ENTRIES_MAX: u64 = 30_000;
/// Items that one look finds.
const ITEMS_MAX: u32 = 500;

/// The logs of one ledger.
#[derive(Clone)]
pub struct Logs {
    ledger: Ledger,
    keys: Arc<SigningKeys>,
}

/// The entries of a batch, and the log behind them.
struct Batch {
    /// The rows of the queue that they come from.
    rows: Vec<i64>,
    /// One entry a line.
    entries: Vec<u8>,
    before: Frontier,
    after: Frontier,
    sums: Sums,
}

impl Logs {
    /// The logs in `ledger`, whose heads are signed by `keys`.
    #[must_use]
    pub fn new(ledger: Ledger, keys: Arc<SigningKeys>) -> Self {
        Self { ledger, keys }
    }

    /// The ledger of these logs.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Lists items for whose logs something waits.
    ///
    /// # Errors
    /// The database's.
    pub async fn waiting(&self) -> sqlx::Result<Vec<ItemId>> {
        let statement = format!(
            "(SELECT DISTINCT item_id FROM receipt_queue LIMIT {ITEMS_MAX}) UNION \
             (SELECT item_id FROM receipt_logs JOIN items ON items.id = item_id \
              WHERE ended_for IS NULL AND ends_at <= UTC_TIMESTAMP(6) LIMIT {ITEMS_MAX})"
        );
        sqlx::query_scalar(&statement).all(&self.ledger.pool).await
    }

    /// Appends what waits for the log of an item, and returns the number of entries. 0 also while another instance does it.
    ///
    /// # Errors
    /// The database's, and [`moved`].
    pub async fn append(&self, routed: ItemRoute) -> sqlx::Result<usize> {
        let append = self.ledger.transact(RetryPolicy::ROLLED_BACK, |transaction| {
            Box::pin(self.append_in(transaction, routed))
        });
        let appended = append.await?;
        if appended > 0 {
            failpoint!("receipts-committed");
        }
        Ok(appended)
    }

    async fn append_in(
        &self,
        transaction: &mut MySqlConnection,
        routed: ItemRoute,
    ) -> sqlx::Result<usize> {
        let item = routed.item.get();
        let statement = format!(
            "SELECT {} FROM receipt_logs WHERE item_id = ? FOR UPDATE SKIP LOCKED",
            LogRow::COLUMNS
        );
        let log: Option<LogRow> =
            sqlx::query_as(&statement).bind(item).first(&mut *transaction).await?;
        let Some(log) = log else { return Ok(0) };
        // Behind the lock, which a mover waits for after it has closed the item: so no entry is appended to a log that was
        // copied already.
        let now = format!(
            "SELECT {NOW}, home_epoch, IF(ends_at <= UTC_TIMESTAMP(6), ends_at, NULL) \
             FROM stock JOIN items ON items.id = item_id WHERE item_id = ?"
        );
        let now: Option<(i64, u64, Option<OffsetDateTime>)> =
            sqlx::query_as(&now).bind(item).first(&mut *transaction).await?;
        let Some((now, epoch, ended)) = now else { return Err(moved()) };
        if epoch != routed.home.epoch && !routed.home.is_only {
            return Err(moved());
        }
        let rows = sqlx::query(
            "SELECT id, told_at, entries FROM receipt_queue WHERE item_id = ? ORDER BY id LIMIT ?",
        )
        .binds((item, ROWS_MAX))
        .all(&mut *transaction)
        .await?;
        let ended = ended.filter(|_| log.ended_for.is_none());
        let (ended_at, time) = (ended.map(|_| now.to_string()), now.max(log.signed_at));
        let batch = spawn_blocking(move || batch_of(&log, &rows, ended_at)).await;
        let batch = batch.map_err(|_| damaged())??;
        let count = usize::try_from(batch.after.size() - batch.before.size()).unwrap_or(usize::MAX);
        if count == 0 {
            return Ok(0);
        }
        self.write(transaction, (item, time), &batch, ended).await?;
        failpoint!("receipts-batch-written");
        if let Some((places, ids)) = in_list(&batch.rows) {
            let delete =
                format!("DELETE FROM receipt_queue WHERE item_id = ? AND id IN ({places})");
            let delete = sqlx::query(&delete).bind(item);
            ids.fold(delete, |delete, id| delete.bind(id)).run(&mut *transaction).await?;
        }
        failpoint!("receipts-appended");
        Ok(count)
    }

    /// Writes a batch with its signed head, and the log behind it.
    async fn write(
        &self,
        transaction: &mut MySqlConnection,
        (item, time): (i64, i64),
        batch: &Batch,
        ended: Option<OffsetDateTime>,
    ) -> sqlx::Result<()> {
        let Batch { entries, before, after, sums, .. } = batch;
        let (size, root) = (after.size(), after.root());
        let head = Head { item, size, root, time, sums: *sums };
        let key = self.keys.at(time.unsigned_abs() / 1_000_000).ok_or_else(damaged)?;
        let (public_key, signature, root) = (key.public_key(), key.sign(&head), hex::encode(root));
        sqlx::query(
            "INSERT INTO receipt_batches (item_id, first_position, size, frontier, entries, root, signed_at, \
             units, orders, refusals, public_key, signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        // As bytes: the server would convert a text character by character.
        .binds((item, before.size(), size, before.nodes(), &entries[..], root, time, sums.units))
        .binds((sums.orders, sums.refusals, public_key, signature))
        .run(&mut *transaction)
        .await?;
        let ended = ended.map(datetime);
        sqlx::query(
            "UPDATE receipt_logs SET size = ?, frontier = ?, units = ?, orders = ?, refusals = ?, signed_at = ?, \
             ended_for = COALESCE(?, ended_for) WHERE item_id = ?",
        )
        .binds((size, after.nodes(), sums.units, sums.orders, sums.refusals, time, ended, item))
        .run(transaction)
        .await
    }
}

impl Batch {
    /// The batch behind a log, without entries; `None` if the row of the log is damaged.
    fn behind(log: &LogRow) -> Option<Self> {
        let before = Frontier::of(log.size, &log.frontier)?;
        let LogRow { units, orders, refusals, .. } = *log;
        let (after, sums) = (before.clone(), Sums { units, orders, refusals });
        Some(Self { rows: Vec::new(), entries: Vec::new(), before, after, sums })
    }

    /// Adds the entry of a line; `None` if it is damaged.
    fn add(&mut self, line: &str, (time, salt): (&str, &Salt)) -> Option<()> {
        let begin = self.entries.len();
        salt.append_entry(line, time, &mut self.entries)?;
        self.after.push(leaf(&self.entries[begin..]));
        self.entries.push(b'\n');
        self.sums.add(line);
        Some(())
    }
}

/// Makes the entries of rows of the queue, and the one of a sale that has ended.
fn batch_of(log: &LogRow, rows: &[MySqlRow], ended_at: Option<String>) -> sqlx::Result<Batch> {
    let salt = log.salt().ok_or_else(damaged)?;
    let mut batch = Batch::behind(log).ok_or_else(damaged)?;
    for row in rows {
        if batch.after.size() - batch.before.size() >= ENTRIES_MAX {
            break;
        }
        batch.rows.push(row.try_get("id")?);
        let told_at = row.try_get::<i64, _>("told_at")?.to_string();
        for line in row.try_get::<&str, _>("entries")?.lines() {
            batch.add(line, (&told_at, &salt)).ok_or_else(damaged)?;
        }
    }
    if let Some(ended_at) = ended_at {
        batch.add("ended @", (&ended_at, &salt)).ok_or_else(damaged)?;
    }
    Ok(batch)
}

fn damaged() -> sqlx::Error {
    sqlx::Error::Decode("a row of a log is damaged".into())
}
