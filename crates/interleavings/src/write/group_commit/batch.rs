//! Batches that write into a book. They go through the stages of the pipeline as the ledger's do, are rolled back,
//! checked, refused, and left to the batches of single items.

use shop_domain::{ItemId, Outcome, Purchase, Refusal};

use super::batch_orders::{Batch, BatchOrders, Tell, UNWRITTEN, orders_of};
use super::book::{Pipeline, Stage};
use super::connections::BatchConnections;
use super::pipeline::{BatchPipeline, PipelineSlot};
use crate::random::once_in;
use crate::work::item_permit::ItemPermits;
use crate::write::{Arbiter, Fence, OrderWrite, StockWrite, in_time};

/// Tries of a batch of many items, and of one item.
const SHARED_ATTEMPTS_MAX: u32 = 2;
const ATTEMPTS_MAX: u32 = 3;

/// Writes batches.
pub struct BatchWriter {
    arbiter: Arbiter,
    pipeline: BatchPipeline,
}

impl BatchWriter {
    pub(super) fn new(arbiter: Arbiter, _: BatchConnections, pipeline: BatchPipeline) -> Self {
        Self { arbiter, pipeline }
    }

    /// Writes orders of one item; those that are left over by themselves.
    pub(super) async fn write_at(
        &self,
        mut slot: PipelineSlot,
        orders: BatchOrders<'_>,
        fence: Option<Fence>,
        tell: Tell<'_>,
    ) {
        let purchases = orders.purchases;
        let item = purchases[0].item.id;
        let mut batch = Batch::new(&self.arbiter, orders, fence, tell);
        let _exclusive = if purchases.len() > 1 {
            self.write_together(slot, Pipeline::Of(item), &mut batch).await;
            batch.tell_decided();
            None
        } else {
            let _ = in_time(batch.deadline(), slot.exclusive()).await;
            Some(slot)
        };
        for (index, deadline) in batch.undecided() {
            let purchase = &purchases[index];
            let write = OrderWrite { purchase, fence, stock: StockWrite::Guarded, deadline };
            batch.answers[index] = Some(self.arbiter.write(&write).await);
            batch.tell_decided();
        }
    }

    /// Writes orders of many items. Those that it does not tell are not written.
    pub(super) async fn write_shared(
        &self,
        slot: PipelineSlot,
        orders: BatchOrders<'_>,
        tell: Tell<'_>,
    ) {
        let mut batch = Batch::shared(&self.arbiter, orders, tell);
        self.write_together(slot, Pipeline::Shared, &mut batch).await;
        batch.tell_decided();
    }

    /// Writes one order with several lines, all or none. `Some` when others have the stock row of this item.
    pub(super) async fn write_alone(
        &self,
        permits: &ItemPermits,
        orders: BatchOrders<'_>,
        tell: Tell<'_>,
    ) -> Option<ItemId> {
        let items = permits.items().len();
        assert!(orders.purchases.len() <= items, "a line without a permit");
        let first = orders.purchases[0].item.id;
        let mut batch = Batch::alone(&self.arbiter, orders, permits, tell);
        if self.arbiter.book.has_faults && once_in(6) {
            return Some(first);
        }
        self.write_together(self.pipeline.enter().await, Pipeline::Alone, &mut batch).await;
        batch.answer_rest(&Ok(UNWRITTEN));
        batch.tell_decided();
        None
    }

    async fn write_together(
        &self,
        mut slot: PipelineSlot,
        pipeline: Pipeline,
        batch: &mut Batch<'_>,
    ) {
        let book = &*self.arbiter.book;
        let attempts_max = if batch.is_shared { SHARED_ATTEMPTS_MAX } else { ATTEMPTS_MAX };
        let mut is_checked = self.pipeline.is_pre_checked();
        let mut failed = 0;
        loop {
            batch.give_up_late();
            if is_checked {
                if in_time(batch.deadline(), slot.exclusive()).await.is_none() {
                    continue;
                }
                book.look(&mut slot, pipeline).await;
                self.refuse_some(batch);
            }
            let chosen = undecided(batch);
            if chosen.is_empty() {
                return;
            }
            book.run(&mut slot, pipeline, Stage::Rows).await;
            if in_time(batch.deadline(), slot.enter_stock_stage()).await.is_none() {
                if slot.is_overtaken() {
                    return;
                }
                slot.leave();
                slot.enter_again().await;
                continue;
            }
            book.run(&mut slot, pipeline, Stage::Stock).await;
            if !(book.has_faults && once_in(3)) {
                let lines = chosen.iter().map(|&index| &batch.purchases[index]);
                book.write(lines);
                batch.sold(&chosen);
                return;
            }
            is_checked = true;
            self.pipeline.set_pre_checked(true);
            failed += 1;
            if failed == attempts_max || slot.is_overtaken() {
                return;
            }
            slot.leave();
            book.pause().await;
            slot.enter_again().await;
        }
    }

    /// Refuses a few orders, each with all its lines.
    fn refuse_some(&self, batch: &mut Batch<'_>) {
        let purchases: &[Purchase] = batch.purchases;
        let refused = || Ok(Outcome::Refused(Refusal::SoldOut { asked_at: None }));
        for lines in orders_of(purchases) {
            if batch.answers[lines.start].is_none() && once_in(4) {
                lines.for_each(|line| batch.answers[line] = Some(refused()));
            }
        }
        let is_clean = undecided(batch).len() == purchases.len();
        self.pipeline.set_pre_checked(!is_clean);
    }
}

/// The lines that have no answer.
fn undecided(batch: &Batch<'_>) -> Vec<usize> {
    (0..batch.purchases.len()).filter(|&index| batch.answers[index].is_none()).collect()
}
