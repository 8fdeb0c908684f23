//! Exports: sales, orders and movements of stock as CSV or JSON lines, for a back office.
//!
//! An export is one snapshot of the ledger, or of each of several ledgers. It is read and written page by page, so its memory does
//! not grow with the ledger. Its last records are the sums by the ledger; the rows are added up on
//! their way, and an export whose rows do not add up to these sums is broken off.

mod table;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::domain::LedgerError;
use crate::domain::item::word_enum;
use crate::store::mysql::{self, export, failed_read, homes};
use crate::store::shards::{Ledger, Shards};
use writer::Writer;

pub use crate::store::mysql::export::Selection;

/// Exports that run at once in one instance: each has a connection to the ledger.
const EXPORTS_MAX: usize = 2;
/// Pages that wait for a slow reader.
const PAGES_MAX: usize = 2;
/// How long an export may take: the ledger keeps old rows for its snapshot.
const EXPORT_MAX: Duration = Duration::from_secs(1_800);

word_enum! {
    /// What is exported.
    Table {
        /// Sales with their figures.
        Sales = "sales",
        /// Orders.
        Orders = "orders",
        /// Movements of stock, restocks among them.
        Movements = "movements",
    }
}

word_enum! {
    /// How it is written.
    Format {
        /// Comma-separated values with a line of column names.
        Csv = "csv",
        /// One JSON object a line.
        JsonLines = "jsonl",
    }
}

/// The reason why an export did not begin, or broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Too many run.
    #[error("too many exports run")]
    Busy,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The rows do not add up to the sums of the ledger.
    #[error("the rows do not add up to the sums of the ledger: {0}")]
    Unequal(String),
    /// The export took too long.
    #[error("the export took too long")]
    TooLong,
    /// Its reader has gone.
    #[error("the reader has gone")]
    NoReader,
}

/// For `?` while rows are read.
impl From<sqlx::Error> for ExportError {
    fn from(error: sqlx::Error) -> Self {
        Self::Ledger(failed_read(&error))
    }
}

/// The pages of an export.
pub type Pages = mpsc::Receiver<Result<Bytes, ExportError>>;

/// Exports from the ledger. Clones share the limit.
#[derive(Clone)]
pub struct Exporter {
    ledgers: Shards<Ledger>,
    permits: Arc<Semaphore>,
}

impl Exporter {
    /// Makes an exporter of these ledgers.
    #[must_use]
    pub fn new(ledgers: Shards<Ledger>) -> Self {
        Self { ledgers, permits: Arc::new(Semaphore::new(EXPORTS_MAX)) }
    }

    /// Begins an export, and answers its pages, which come from a task of their own. An error in
    /// place of a page is the last one: the export is not complete then.
    ///
    /// # Errors
    /// When too many exports run, or the ledger does not answer.
    pub async fn start(
        &self,
        table: Table,
        format: Format,
        selection: Selection,
    ) -> Result<Pages, ExportError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| ExportError::Busy)?;
        let snapshots = self.snapshots(selection).await?;
        let (pages, receiver) = mpsc::channel(PAGES_MAX);
        let run = run(snapshots, Writer::new(table, format, pages.clone()), selection, permit);
        tokio::spawn(async move {
            if let Err(error) = run.await {
                tracing::warn!(%error, table = table.as_str(), "export broken off");
                let _ = pages.send(Err(error)).await;
            }
        });
        Ok(receiver)
    }

    /// A snapshot of each ledger that has selected rows. While an item moves, two ledgers have its rows.
    async fn snapshots(&self, selection: Selection) -> Result<Vec<Snapshot>, ExportError> {
        let away = |_| ExportError::Ledger(LedgerError::Unavailable);
        if let Some(item) = selection.item {
            let (Ledger { pool, breaker }, _) = self.ledgers.of_item(item).await.map_err(away)?;
            return Ok(vec![mysql::ask(breaker, export::begin(pool)).await?]);
        }
        let mut snapshots = Vec::new();
        for (_, Ledger { pool, breaker }) in self.ledgers.iter() {
            snapshots.push(mysql::ask(breaker, export::begin(pool)).await?);
        }
        let Ledger { pool, breaker } = self.ledgers.home();
        if snapshots.len() > 1 && mysql::ask(breaker, homes::is_moving(pool)).await? {
            return Err(ExportError::Ledger(LedgerError::Moving));
        }
        Ok(snapshots)
    }
}

/// The connection of a snapshot.
type Snapshot = sqlx::pool::PoolConnection<sqlx::MySql>;

/// Writes one export, and gives its connections back.
fn run(
    mut snapshots: Vec<Snapshot>,
    mut writer: Writer,
    selection: Selection,
    permit: OwnedSemaphorePermit,
) -> BoxFuture<'static, Result<(), ExportError>> {
    Box::pin(async move {
        let _permit = permit;
        let write = table::write(&mut snapshots, &mut writer, selection);
        let written = tokio::time::timeout(EXPORT_MAX, write).await;
        for snapshot in snapshots {
            export::end(snapshot).await;
        }
        written.map_err(|_| ExportError::TooLong)?
    })
}
