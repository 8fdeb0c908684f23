//! Runs of the pipeline and of the permits of items by themselves.
//!
//! What holds in each run:
//! * no more batches are in a stage than it allows, and one that looks at the rows is alone;
//! * at the end no batch is under way, and all permits are back, also those of tasks that were ended while they waited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::join_all;

use super::pipeline::{BatchPipeline, PipelineSlot};
use crate::book::Book;
use crate::random::{below, once_in};
use crate::shop::ITEMS;
use crate::sql::{Database, Process};
use crate::task::{wait_or_leave, yield_now};
use crate::work::item_concurrency::ItemConcurrency;

/// Batches that may write rows.
const ROWS_MAX: usize = 2;

/// Batches that write rows, and that take stock.
type Running = [AtomicUsize; 2];

/// A batch that is in a stage.
struct InStage<'a>(&'a AtomicUsize);

impl Drop for InStage<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs the statements of a stage: 0 is that of the rows.
async fn run(slot: &mut PipelineSlot, running: &Running, stage: usize) {
    running[stage].fetch_add(1, Ordering::Relaxed);
    let _in_stage = InStage(&running[stage]);
    let [rows, stock] = running.each_ref().map(|one| one.load(Ordering::Relaxed));
    let fits = stock <= 1 && rows + stock <= ROWS_MAX + 1;
    assert!(fits, "{rows} batches write rows, {stock} take stock");
    let steps = async {
        for _ in 0..below(4) {
            yield_now().await;
        }
    };
    slot.run(steps).await;
}

/// One batch goes through the pipeline, with all that may happen to it.
async fn go_through(pipeline: BatchPipeline, running: Arc<Running>) {
    let mut slot = if once_in(3) {
        pipeline.enter_when(std::future::ready(())).await
    } else {
        pipeline.enter().await
    };
    if once_in(3) {
        slot.exclusive().await;
        let others: usize = running.iter().map(|one| one.load(Ordering::Relaxed)).sum();
        assert_eq!(others, 0, "a look is not alone");
        yield_now().await;
    }
    run(&mut slot, &running, 0).await;
    if once_in(3) {
        slot.leave();
        slot.enter_again().await;
        run(&mut slot, &running, 0).await;
    }
    slot.enter_stock_stage().await;
    run(&mut slot, &running, 1).await;
}

async fn pipeline_run() {
    let pipeline = BatchPipeline::default();
    let running: Arc<Running> = Arc::default();
    let batches = (0..5).map(|_| {
        let batch = go_through(pipeline.clone(), Arc::clone(&running)).boxed();
        crate::spawn(wait_or_leave(batch, 4))
    });
    for batch in join_all(batches.collect::<Vec<_>>()).await {
        batch.expect("a batch does not panic");
    }
    let mut slot: PipelineSlot = pipeline.enter().now_or_never().expect("no batch is under way");
    assert!(slot.exclusive().now_or_never().is_some(), "a batch has left a permit behind");
}
/// Batches of one pipeline, some of which end at any moment.
pub fn pipeline() {
    shuttle::future::block_on(pipeline_run());
}

async fn permits_run() {
    // Two for each item.
    let limits = ItemConcurrency::new(8);
    let book = Arc::new(Book::new([]));
    let pool = Database { book, process: Process::default(), is_faulty: false };
    let held: Arc<[AtomicUsize; 3]> = Arc::default();
    let orders = (0..5).map(|_| {
        let limits = limits.clone();
        let pool = pool.clone();
        let held = Arc::clone(&held);
        let first = below(2) as usize;
        let wanted = if once_in(2) { [first, first + 1] } else { [first + 1, first] };
        let order = async move {
            let items = wanted.map(|at| ITEMS[at].id);
            // Again when a row was not free in time.
            let permits = loop {
                let permits = limits.acquire_all(&items, &pool, None).await;
                if let Some(permits) = permits {
                    break permits;
                }
            };
            for at in wanted {
                let before = held[at].fetch_add(1, Ordering::Relaxed);
                assert!(before < 2, "an item has more permits than its limit");
            }
            for _ in 0..below(3) {
                yield_now().await;
            }
            for at in wanted {
                held[at].fetch_sub(1, Ordering::Relaxed);
            }
            drop(permits);
        };
        // Nobody leaves between the count and its end.
        crate::spawn(order)
    });
    let orders: Vec<_> = orders.collect();
    let leaving = (0..3).map(|_| {
        let limits = limits.clone();
        let pool = pool.clone();
        let items = ITEMS.each_ref().map(|item| item.id);
        let waiting = async move { drop(limits.acquire_all(&items, &pool, None).await) };
        crate::spawn(wait_or_leave(waiting.boxed(), 4))
    });
    let leaving: Vec<_> = leaving.collect();
    for order in join_all(orders).await {
        order.expect("an order does not panic");
    }
    for one in join_all(leaving).await {
        one.expect("it does not panic");
    }
    for item in ITEMS.iter() {
        let taken: Vec<_> = (0..2).map(|_| limits.acquire(item.id).now_or_never()).collect();
        assert!(taken.iter().all(Option::is_some), "a permit has not come back");
    }
}

/// Orders of two items wait for permits, some of them at any moment no longer.
pub fn permits() {
    shuttle::future::block_on(permits_run());
}
