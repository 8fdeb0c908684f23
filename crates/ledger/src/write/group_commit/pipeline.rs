//! The order in which the batches of one queue follow each other: one batch writes its rows while
//! the batch before it takes the stock and is committed.
//!
//! There are two stages, and a batch goes through both: *rows* (orders, limits, movements), then
//! *stock* (the hot rows, COMMIT). One batch is in the second stage at most, because it holds the hot rows. A
//! full batch may be in the first stage beside another one: it grows no more while it waits, and the ledger
//! would have nothing to do while the other one makes its statements. So at most three transactions are
//! open, and the later of two batches may be the first to take the stock.
//!
//! No batches wait for each other in a circle. A batch that writes rows may wait for rows that another one has
//! locked. All lock rows in one sequence, the stock last, and the batch in the second stage needs nothing else.
//! A batch that is rolled back leaves its stage before it enters again.
//!
//! In a pipeline that many items share, a batch that waits for a row that another transaction holds is
//! *overtaken*: it leaves its stage, goes on by itself, and the batches behind it pass. They have
//! none of its items, which are in quarantine from then on, so they do not meet.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How long the statements of a stage may take before the batch is overtaken.
pub(super) const PATIENCE: Duration = Duration::from_millis(400);
/// Batches that may be overtaken at once: when every statement is slow, overtaking helps nobody.
const OVERTAKEN_MAX: u32 = 2;

/// Batches that write rows at once, if they are full.
const ROWS_MAX: u32 = 2;
/// Connections that a shared queue needs: one for each batch that is under way, also if it was overtaken.
pub const SHARED_CONNECTIONS: u32 = ROWS_MAX + 1 + OVERTAKEN_MAX;

/// The two stages. Clones share them.
#[derive(Clone)]
pub(super) struct BatchPipeline {
    rows: Arc<Semaphore>,
    stock: Arc<Mutex<()>>,
    /// Whether batches are checked before they are written.
    pre_checked: Arc<AtomicBool>,
    /// Permits to be overtaken; none where batches keep their order whatever happens.
    overtaken: Option<Arc<Semaphore>>,
}

/// The stage that one batch is in. Dropping it lets the next batch go on.
pub(super) struct PipelineSlot {
    pipeline: BatchPipeline,
    rows: Option<OwnedSemaphorePermit>,
    stock: Option<OwnedMutexGuard<()>>,
    overtaken: Option<OwnedSemaphorePermit>,
    when_overtaken: Option<Box<dyn FnOnce() + Send>>,
}

impl Default for BatchPipeline {
    /// A pipeline whose batches keep their turns.
    fn default() -> Self {
        let rows = Arc::new(Semaphore::new(ROWS_MAX as usize));
        Self { rows, stock: Arc::default(), pre_checked: Arc::default(), overtaken: None }
    }
}

impl BatchPipeline {
    /// A pipeline whose slow batches are overtaken.
    pub(super) fn with_overtaking() -> Self {
        Self {
            overtaken: Some(Arc::new(Semaphore::new(OVERTAKEN_MAX as usize))),
            ..Self::default()
        }
    }

    /// Waits until no batch writes rows. First come, first served.
    pub(super) async fn enter(&self) -> PipelineSlot {
        self.enter_when(pending()).await
    }

    /// Waits until no batch writes rows, or until the batch `is_full` and may write them beside another one.
    pub(super) async fn enter_when(&self, is_full: impl Future<Output = ()>) -> PipelineSlot {
        let mut slot = PipelineSlot {
            pipeline: self.clone(),
            rows: None,
            stock: None,
            overtaken: None,
            when_overtaken: None,
        };
        let is_alone = tokio::select! {
            biased;
            () = slot.enter_again() => true,
            () = is_full => false,
        };
        if !is_alone {
            slot.enter_rows(1).await;
        }
        slot
    }

    /// Whether batches are checked before they are written.
    pub(super) fn is_pre_checked(&self) -> bool {
        self.pre_checked.load(Ordering::Relaxed)
    }

    /// Sets whether batches are checked before they are written.
    pub(super) fn set_pre_checked(&self, pre_checked: bool) {
        self.pre_checked.store(pre_checked, Ordering::Relaxed);
    }
}

impl PipelineSlot {
    /// Has `call` called when the batch is overtaken.
    pub(super) fn when_overtaken(&mut self, call: impl FnOnce() + Send + 'static) {
        self.when_overtaken = Some(Box::new(call));
    }

    /// Waits until no other batch is under way, and keeps others from beginning: for a batch that is
    /// checked before it is written, and has no transaction yet.
    pub(super) async fn exclusive(&mut self) {
        if !self.is_in_stock_stage() {
            // Without a permit of its own, so that two of them do not wait for each other.
            self.rows = None;
            self.enter_rows(ROWS_MAX).await;
            self.enter_stock().await;
        }
    }

    /// The rows are written: waits until the batch before has ended, and lets the batch behind
    /// begin, unless this one is exclusive.
    pub(super) async fn enter_stock_stage(&mut self) {
        if !self.is_in_stock_stage() {
            self.enter_stock().await;
            self.rows = None;
        }
    }

    async fn enter_rows(&mut self, permits: u32) {
        // Nobody closes it.
        self.rows = Arc::clone(&self.pipeline.rows).acquire_many_owned(permits).await.ok();
    }

    async fn enter_stock(&mut self) {
        self.stock = Some(Arc::clone(&self.pipeline.stock).lock_owned().await);
    }

    /// Leaves the stage of a batch that was rolled back.
    pub(super) fn leave(&mut self) {
        (self.rows, self.stock) = (None, None);
    }

    /// Waits, after [`PipelineSlot::leave`], until rows may be written again.
    pub(super) async fn enter_again(&mut self) {
        self.enter_rows(ROWS_MAX).await;
        // The others are for batches that are full.
        drop(self.rows.as_mut().and_then(|rows| rows.split(ROWS_MAX as usize - 1)));
    }

    /// Whether the stock may be taken.
    pub(super) fn is_in_stock_stage(&self) -> bool {
        self.stock.is_some() || self.is_overtaken()
    }

    /// Whether the batch has left the pipeline because it was slow.
    pub(super) fn is_overtaken(&self) -> bool {
        self.overtaken.is_some()
    }

    /// Awaits statements of the stage that the batch is in; it is overtaken if they are slow.
    pub(super) async fn run<T>(&mut self, statements: impl Future<Output = T>) -> T {
        let mut statements = pin!(statements);
        if let Ok(done) = timeout(PATIENCE, &mut statements).await {
            return done;
        }
        self.let_pass();
        statements.await
    }

    fn let_pass(&mut self) {
        let Some(overtaken) = &self.pipeline.overtaken else { return };
        let Ok(permit) = Arc::clone(overtaken).try_acquire_owned() else { return };
        // First this: whoever comes next must know which items to leave alone.
        if let Some(call) = self.when_overtaken.take() {
            call();
        }
        self.overtaken = Some(permit);
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

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
    async fn a_full_batch_writes_rows_beside_another_one() {
        let pipeline = BatchPipeline::default();
        let first = pipeline.enter().await;
        let full = pipeline.enter_when(ready(())).now_or_never().expect("one may be beside it");
        assert!(pipeline.enter_when(ready(())).now_or_never().is_none(), "a third one has to wait");
        drop(first);
        assert!(pipeline.enter().now_or_never().is_none(), "one that is not full has to wait");
        drop(full);
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

    /// A batch whose statements never end.
    async fn stuck(pipeline: &BatchPipeline, told: &Arc<AtomicBool>) -> PipelineSlot {
        let mut slot = pipeline.enter().await;
        let told = Arc::clone(told);
        slot.when_overtaken(move || told.store(true, Ordering::Relaxed));
        assert!(timeout(2 * PATIENCE, slot.run(pending::<()>())).await.is_err());
        slot
    }

    #[tokio::test]
    async fn a_slow_batch_is_overtaken_where_items_share_the_pipeline() {
        let pipeline = BatchPipeline::with_overtaking();
        let told = Arc::default();
        let mut slow = stuck(&pipeline, &told).await;
        assert!(told.load(Ordering::Relaxed) && slow.is_overtaken() && slow.is_in_stock_stage());
        let mut next = pipeline.enter().now_or_never().expect("the slow one has left");
        next.enter_stock_stage().now_or_never().expect("the slow one does not come back");
        slow.enter_stock_stage().now_or_never().expect("it waits for nobody");
        assert!(!next.is_overtaken() && next.run(ready(true)).await);
    }

    #[tokio::test]
    async fn when_everything_is_slow_batches_wait_for_each_other() {
        let pipeline = BatchPipeline::with_overtaking();
        let told = Arc::default();
        let mut overtaken = Vec::new();
        for _ in 0..OVERTAKEN_MAX {
            overtaken.push(stuck(&pipeline, &told).await);
        }
        let last = stuck(&pipeline, &told).await;
        assert!(!last.is_overtaken());
        assert!(pipeline.enter().now_or_never().is_none());
        drop(overtaken);
        drop(last);
        assert!(pipeline.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_batch_of_one_item_keeps_its_place() {
        let pipeline = BatchPipeline::default();
        let told = Arc::default();
        let slow = stuck(&pipeline, &told).await;
        assert!(!slow.is_overtaken() && !told.load(Ordering::Relaxed));
        assert!(pipeline.enter().now_or_never().is_none());
    }
}
