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
use crate::writer::{PageSender, Writer};
use ledger::Ledger;
use mysql_connection::{Snapshot, begin_snapshot};

pub use crate::sql::rows::Selection;
pub use crate::writer::{ExportError, Form, Format, Table};

/// Exports that run at once in one instance: each has a connection to the ledger.
const EXPORTS_MAX: usize = 2;
/// Pages that wait for a slow reader.
const PAGES_MAX: usize = 2;
/// How long an export may take: the ledger keeps old rows for its snapshot.
const EXPORT_MAX: Duration = Duration::from_secs(1_800);

/// The pages of an export.
pub type Pages = mpsc::Receiver<Result<Bytes, ExportError>>;
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
        let columns = export_table::columns(table);
        let writer = Writer::new(table, columns, form, pages.clone());
        let run = run(snapshot, writer, selection, permit);
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
