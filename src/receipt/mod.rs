//! Receipts: the public log of each sale, which anybody can check, and the proof for each buyer that an answer is in it.
//!
//! The transactions are in `ledger::receipts`; entries, tree and signatures in the crate `sale-log`. The job `receipts`
//! appends what waits.

mod append;
mod log_text;

use std::sync::Arc;
use std::time::Duration;

use ledger::receipts::{self, Logs};
use ledger::route::Shards;
use ledger::rows::receipts::{LogRow, find, last, with_entry};
use sale_log::{Frontier, PublishedKey, SigningKeys, leaf, path};
use shop_domain::{
    Clock, DrawEntry, ItemId, ItemRoute, LedgerError, Order, Quantity, Refusal, UserId,
};
use time::OffsetDateTime;

pub use ledger::rows::receipts::BatchRow;

/// How far before an answer's time its entry is searched: clocks differ.
const BEFORE_MAX: Duration = Duration::from_secs(60);
/// How long after an answer its entry is searched.
const AFTER_MAX: Duration = Duration::from_hours(24);

/// The reason why there is no receipt.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The item has no log.
    #[error("the item has no log")]
    NoLog,
    /// The answer is not in the log yet, or was never given.
    #[error("not in the log")]
    Pending,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// An entry of a log, with the way to a signed head.
pub struct Receipt {
    pub item: ItemId,
    pub position: u64,
    pub entry: String,
    /// The order that the entry means, and the number that proves it; `None` for other answers.
    pub order: Option<(String, String)>,
    pub path: Vec<String>,
    pub batch: BatchRow,
}

/// A log, as far as it is signed.
pub struct LogSummary {
    pub log: LogRow,
    pub last: BatchRow,
}

/// The receipts. Clones share everything.
#[derive(Clone)]
pub struct Receipts {
    ledgers: Shards<Logs>,
    keys: Arc<SigningKeys>,
    clock: Clock,
}

impl Receipts {
    /// The receipts from the logs of `ledgers`, which `keys` sign.
    #[must_use]
    pub fn new(ledgers: Shards<Logs>, keys: Arc<SigningKeys>, clock: Clock) -> Self {
        Self { ledgers, keys, clock }
    }

    /// The keys that sign, have signed, and will sign next.
    #[must_use]
    pub fn keys(&self) -> Vec<PublishedKey> {
        self.keys.published(self.clock.now().unix_timestamp().unsigned_abs())
    }

    /// Finds the last head of a log.
    pub async fn summary(&self, item: ItemId) -> Result<LogSummary, ReceiptError> {
        let log = self.log(item).await?;
        let (logs, _) = self.ledgers.of_item(item).await.map_err(LedgerError::from)?;
        let ledger = logs.ledger();
        let last = ledger.read(last(&ledger.pool, item)).await?.ok_or(ReceiptError::Pending)?;
        Ok(LogSummary { log, last })
    }

    /// Finds the receipts of an order's lines whose items have a log.
    pub async fn of_order(&self, order: &Order) -> Result<Vec<Receipt>, ReceiptError> {
        let mut receipts = Vec::new();
        for line in order.lines() {
            let salt = match self.log(line.item_id).await {
                Ok(log) => log.salt().ok_or(ReceiptError::NoLog)?,
                Err(ReceiptError::NoLog) => continue,
                Err(error) => return Err(error),
            };
            let id = line.id.to_string();
            let (name, nonce) = (salt.order(&id), salt.nonce(&id));
            let (Some(name), Some(nonce)) = (name, nonce) else { continue };
            let mut receipt = self.search(line.item_id, &name, line.created_at).await?;
            receipt.order = Some((id, nonce));
            receipts.push(receipt);
        }
        if receipts.is_empty() { Err(ReceiptError::NoLog) } else { Ok(receipts) }
    }

    /// Finds the receipt of a buyer's entry in a draw.
    pub async fn of_entry(&self, item: ItemId, entry: &DrawEntry) -> Result<Receipt, ReceiptError> {
        self.log(item).await?;
        self.search(item, &entry.entry, entry.entered_at).await
    }

    /// Finds the receipt of a refusal by its id and its time.
    pub async fn of_refusal(
        &self,
        item: ItemId,
        id: &str,
        at: OffsetDateTime,
    ) -> Result<Receipt, ReceiptError> {
        self.log(item).await?;
        self.search(item, id, at).await
    }

    /// Tells the log of an item that a buyer was refused. Returns the address of the receipt; `None` when there will be none,
    /// because the item has no log, or the ledger does not say the same.
    pub async fn refuse(
        &self,
        item: ItemId,
        (buyer, units): (UserId, Quantity),
        refusal: &Refusal,
    ) -> Option<String> {
        let id = hex::encode(rand::random::<[u8; 16]>());
        let (asked, id_of_it) = ((buyer, units), (&*id, refusal.code()));
        let told = self.ledgers.write(item, |logs, home| {
            receipts::refused(logs.ledger(), ItemRoute { item, home }, asked, id_of_it)
        });
        let since = self.clock.now().unix_timestamp();
        let address = format!("/api/items/{item}/log/receipts/{id}?since={since}");
        // Without an answer the buyer is told of no receipt; a line that was written stays true.
        told.await.ok()?.then_some(address)
    }

    async fn log(&self, item: ItemId) -> Result<LogRow, ReceiptError> {
        let (logs, _) = self.ledgers.of_item(item).await.map_err(LedgerError::from)?;
        let ledger = logs.ledger();
        ledger.read(find(&ledger.pool, item)).await?.ok_or(ReceiptError::NoLog)
    }

    /// Searches the entry with a name among those that may be the answer at a time.
    async fn search(
        &self,
        item: ItemId,
        name: &str,
        at: OffsetDateTime,
    ) -> Result<Receipt, ReceiptError> {
        let micros = |at: OffsetDateTime| {
            i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX)
        };
        let times = (micros(at - BEFORE_MAX), micros(at + AFTER_MAX));
        let (logs, _) = self.ledgers.of_item(item).await.map_err(LedgerError::from)?;
        let ledger = logs.ledger();
        let found = ledger.read(with_entry(&ledger.pool, item, name, times)).await?;
        let batch = found.ok_or(ReceiptError::Pending)?;
        let name = name.to_owned();
        let receipt = tokio::task::spawn_blocking(move || receipt_of(item, &name, batch)).await;
        receipt.ok().flatten().ok_or(ReceiptError::Pending)
    }
}

/// Makes the receipt of the entry of a batch that has this name.
fn receipt_of(item: ItemId, name: &str, batch: BatchRow) -> Option<Receipt> {
    let before = Frontier::of(batch.first_position, &batch.frontier)?;
    let entries: Vec<&str> = batch.entries.lines().collect();
    let index = entries.iter().position(|entry| {
        !entry.starts_with("returned") && entry.split(' ').nth(2) == Some(name)
    })?;
    let leaves: Vec<_> = entries.iter().map(|entry| leaf(entry.as_bytes())).collect();
    let path = path(&before, &leaves, index)?.iter().map(hex::encode).collect();
    let (entry, position) = (entries[index].to_owned(), batch.first_position + index as u64);
    Some(Receipt { item, position, entry, order: None, path, batch })
}
