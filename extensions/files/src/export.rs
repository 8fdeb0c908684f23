//! Exports: sales, orders and movements of stock as CSV or JSON lines, for a back office.
//!
//! An export is one snapshot of the ledger. It is read and written page by page, so its memory does
//! not grow with the ledger. Its last records are the sums by the ledger; the rows are added up on
//! their way, and an export whose rows do not add up to these sums is broken off.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::export_table;
use crate::problems;
use crate::writer::Writer;
use ledger::Ledger;
use ledger::rows::failed_read;
use mysql_connection::{Snapshot, begin_snapshot};
use shop_domain::LedgerError;
use shop_domain::item::word_enum;
use web::problem::Problem;

pub use crate::sql::rows::Selection;

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

/// How an export is written.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub format: Format,
    /// Whether CSV begins with a byte order mark, by which spreadsheets know UTF-8.
    pub has_mark: bool,
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
    /// A fault of the program ended it.
    #[error("a fault of the program ended it")]
    Panicked,
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Busy => problems::OVERLOADED
                .detail("Too many exports are running; try again when one has ended."),
            ExportError::Ledger(error) => error.into(),
            ExportError::Unequal(_)
            | ExportError::TooLong
            | ExportError::NoReader
            | ExportError::Panicked => problems::INTERNAL.problem(),
        }
    }
}

/// For `?` while rows are read.
impl From<ledger::Error> for ExportError {
    fn from(error: ledger::Error) -> Self {
        Self::Ledger(failed_read(&error))
    }
}

/// The pages of an export.
pub type Pages = mpsc::Receiver<Result<Bytes, ExportError>>;
/// Where an export sends them.
pub(super) type PageSender = mpsc::Sender<Result<Bytes, ExportError>>;
/// An export that runs.
type Run = BoxFuture<'static, Result<(), ExportError>>;

/// Exports from the ledger. Clones share the limit.
#[derive(Clone)]
pub struct Exporter {
    ledger: Ledger,
    permits: Arc<Semaphore>,
}

impl Exporter {
    /// Makes an exporter of the ledger.
    #[must_use]
    pub fn new(ledger: Ledger) -> Self {
        Self { ledger, permits: Arc::new(Semaphore::new(EXPORTS_MAX)) }
    }

    /// Begins an export, and answers its pages, which come from a task of their own. An error in
    /// place of a page is the last one: the export is not complete then.
    ///
    /// # Errors
    /// When too many exports run, or the ledger does not answer.
    pub async fn start(
        &self,
        table: Table,
        form: Form,
        selection: Selection,
    ) -> Result<Pages, ExportError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| ExportError::Busy)?;
        let snapshot = self.ledger.read(begin_snapshot(&self.ledger.pool)).await?;
        let (pages, receiver) = mpsc::channel(PAGES_MAX);
        let run = run(snapshot, Writer::new(table, form, pages.clone()), selection, permit);
        tokio::spawn(tell_end(run, table, pages));
        Ok(receiver)
    }
}

/// Runs an export, and sends its error in the place of a page. A panic is one, too: pages that end without an error
/// are a complete file.
async fn tell_end(run: Run, table: Table, pages: PageSender) {
    let ended = AssertUnwindSafe(run).catch_unwind().await;
    if let Err(error) = ended.unwrap_or(Err(ExportError::Panicked)) {
        tracing::warn!(%error, table = table.as_str(), "export broken off");
        let _ = pages.send(Err(error)).await;
    }
}

/// Writes one export, and gives its connection back.
fn run(
    mut snapshot: Snapshot,
    mut writer: Writer,
    selection: Selection,
    permit: OwnedSemaphorePermit,
) -> Run {
    Box::pin(async move {
        let _permit = permit;
        let write = export_table::write(&mut snapshot, &mut writer, selection);
        tokio::time::timeout(EXPORT_MAX, write).await.map_err(|_| ExportError::TooLong)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader of a body, or the command, takes pages without an error for the whole file.
    #[tokio::test]
    async fn a_panic_ends_the_pages_with_an_error() {
        let (pages, mut receiver) = mpsc::channel(PAGES_MAX);
        let first = pages.clone();
        let run: Run = Box::pin(async move {
            first.send(Ok(Bytes::from_static(b"id\n"))).await.expect("a reader");
            panic!("planted");
        });
        tell_end(run, Table::Orders, pages).await;
        assert_eq!(receiver.recv().await, Some(Ok(Bytes::from_static(b"id\n"))));
        assert_eq!(receiver.recv().await, Some(Err(ExportError::Panicked)));
        assert_eq!(receiver.recv().await, None);
    }
}
