//! The order in which the batches of one item follow each other: one batch writes its rows while
//! the batch before it takes the stock and is committed.
//!
//! There are two stages, and a batch goes through both: *rows* (orders, limits, movements), then
//! *stock* (the one hot row, COMMIT). A batch leaves the first stage only when it has the second,
//! so batches keep their order, the last units go to the first in the queue, and at most two
//! transactions are open.
//!
//! No batches wait for each other in a circle. A batch that writes rows may wait for rows that the
//! batch before it has locked, and that one needs nothing but the stock. A batch that is rolled
//! back leaves its stage before it enters again.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The two stages. Clones share them.
#[derive(Clone, Default)]
pub(super) struct BatchPipeline {
    rows: Arc<Mutex<()>>,
    stock: Arc<Mutex<()>>,
}

/// The stage that one batch is in. Dropping it lets the next batch go on.
pub(super) struct PipelineSlot {
    pipeline: BatchPipeline,
    rows: Option<OwnedMutexGuard<()>>,
    stock: Option<OwnedMutexGuard<()>>,
}

impl BatchPipeline {
    /// Waits until rows may be written. First come, first served.
    pub(super) async fn enter(&self) -> PipelineSlot {
        let rows = Arc::clone(&self.rows).lock_owned().await;
        PipelineSlot { pipeline: self.clone(), rows: Some(rows), stock: None }
    }
}

impl PipelineSlot {
    /// Waits until the batch before has ended, and keeps the batch behind from beginning: for a
    /// batch that is checked before it is written.
    pub(super) async fn exclusive(&mut self) {
        if self.stock.is_none() {
            self.stock = Some(Arc::clone(&self.pipeline.stock).lock_owned().await);
        }
    }

    /// The rows are written: waits until the batch before has ended, and lets the batch behind
    /// begin, unless this one is exclusive.
    pub(super) async fn enter_stock_stage(&mut self) {
        if self.stock.is_none() {
            self.exclusive().await;
            self.rows = None;
        }
    }

    /// Whether the stock may be taken.
    pub(super) fn is_in_stock_stage(&self) -> bool {
        self.stock.is_some()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_writes_rows_while_the_one_before_takes_the_stock() {
        let pipeline = BatchPipeline::default();
        let mut first = pipeline.enter().await;
        assert!(pipeline.enter().now_or_never().is_none(), "the first one's rows are not written");
        first.enter_stock_stage().await;
        let mut second = pipeline.enter().await;
        assert!(second.enter_stock_stage().now_or_never().is_none(), "the first has the stock");
        assert!(!second.is_in_stock_stage());
        assert!(pipeline.enter().now_or_never().is_none(), "a third one has to wait");
        drop(first);
        second.enter_stock_stage().await;
        assert!(second.is_in_stock_stage());
        assert!(pipeline.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_batch_that_is_checked_first_is_exclusive() {
        let pipeline = BatchPipeline::default();
        let mut first = pipeline.enter().await;
        first.enter_stock_stage().await;
        let mut pre_checked = pipeline.enter().await;
        assert!(pre_checked.exclusive().now_or_never().is_none(), "the first has not ended");
        drop(first);
        pre_checked.exclusive().await;
        pre_checked.enter_stock_stage().await;
        assert!(pipeline.enter().now_or_never().is_none(), "exclusive until it has ended");
        drop(pre_checked);
        assert!(pipeline.enter().now_or_never().is_some());
    }
}
