//! A ledger in memory. It holds the written orders, and counts the statements of a pipeline that run at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shop_domain::{ItemId, OrderId, Outcome, Purchase};

use super::pipeline::PipelineSlot;
use crate::random::{below, once_in};
use crate::task::yield_now;
use crate::time::{Duration, sleep};
use crate::write::WRITTEN_AS;

/// Batches of one pipeline that may be overtaken at once, and batches that may write rows.
const OVERTAKEN_MAX: usize = 2;
const ROWS_MAX: usize = 2;

/// The book.
pub(crate) struct Book {
    /// Whether statements are slow, batches are rolled back and orders refused.
    pub(super) has_faults: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The lines that were written, with the number of times.
    written: HashMap<OrderId, u32>,
    /// The lines that batches have written.
    by_batches: Vec<OrderId>,
    /// A rule of the pipeline that was broken. A panic would be taken for a fault of the batch.
    broken: Option<String>,
    /// Whether a batch was overtaken.
    was_overtaken: bool,
    /// Statements of each pipeline that run: of rows, and of stock.
    running: HashMap<Pipeline, [usize; 2]>,
}

/// A pipeline of batches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pipeline {
    /// That of the queue of all items, which lets slow batches be overtaken.
    Shared,
    /// That of the queue of an item.
    Of(ItemId),
    /// That of an order by itself.
    Alone,
}

impl Pipeline {
    /// Batches that may be overtaken, and are not under way then.
    fn overtaken_max(self) -> usize {
        match self {
            Self::Shared => OVERTAKEN_MAX,
            Self::Of(_) => 0,
            // There are as many of them as orders.
            Self::Alone => usize::MAX / 2,
        }
    }
}

/// The stage of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Rows = 0,
    Stock = 1,
}

/// A statement that runs.
pub(super) struct Running<'a> {
    book: &'a Book,
    pipeline: Pipeline,
    stage: Stage,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.book.state();
        state.running.entry(self.pipeline).or_default()[self.stage as usize] -= 1;
    }
}

impl Book {
    pub(crate) fn new(has_faults: bool) -> Self {
        Self { has_faults, state: Mutex::default() }
    }

    /// Runs a statement of a stage: a few steps, and perhaps longer than a batch is waited for.
    pub(super) async fn run(&self, slot: &mut PipelineSlot, pipeline: Pipeline, stage: Stage) {
        let running = self.begin(pipeline, stage);
        slot.run(self.pause()).await;
        drop(running);
        self.state().was_overtaken |= slot.is_overtaken();
    }

    fn begin(&self, pipeline: Pipeline, stage: Stage) -> Running<'_> {
        let mut state = self.state();
        let [rows, stock] = state.running.entry(pipeline).or_default();
        *(if stage == Stage::Rows { &mut *rows } else { &mut *stock }) += 1;
        let overtaken = pipeline.overtaken_max();
        let fits = *stock <= 1 + overtaken && *rows + *stock <= ROWS_MAX + 1 + overtaken;
        let broken = (!fits).then(|| format!("{rows} batches write rows, {stock} take stock"));
        state.broken = state.broken.take().or(broken);
        Running { book: self, pipeline, stage }
    }

    /// Looks at the rows: no other batch is under way, unless it was overtaken.
    pub(super) async fn look(&self, slot: &mut PipelineSlot, pipeline: Pipeline) {
        let overtaken = pipeline.overtaken_max();
        for _ in 0..below(3) {
            if !slot.is_overtaken() {
                let mut state = self.state();
                let others = state.running.get(&pipeline).copied().unwrap_or_default();
                let others: usize = others.iter().sum();
                let broken = (others > overtaken).then(|| format!("{others} beside a look"));
                state.broken = state.broken.take().or(broken);
            }
            yield_now().await;
        }
    }

    pub(crate) async fn pause(&self) {
        for _ in 0..below(4) {
            yield_now().await;
        }
        if self.has_faults && once_in(8) {
            sleep(Duration::from_millis(u64::from(below(900)))).await;
        }
    }

    /// Writes a purchase by itself.
    pub(crate) fn write_alone(&self, purchase: &Purchase) -> Outcome {
        *self.state().written.entry(purchase.order_id).or_default() += 1;
        Outcome::Sold(purchase.order(WRITTEN_AS, None))
    }

    /// Writes the lines of a batch.
    pub(super) fn write<'a>(&self, lines: impl Iterator<Item = &'a Purchase>) {
        let mut state = self.state();
        for line in lines {
            *state.written.entry(line.order_id).or_default() += 1;
            state.by_batches.push(line.order_id);
        }
    }

    /// The rule of the pipeline that was broken.
    pub(super) fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    /// How many times a line was written.
    pub(super) fn times(&self, line: OrderId) -> u32 {
        self.state().written.get(&line).copied().unwrap_or_default()
    }

    /// The lines that batches have written, in their order; `None` if a batch was overtaken.
    pub(super) fn in_order(&self) -> Option<Vec<OrderId>> {
        let state = self.state();
        (!state.was_overtaken).then(|| state.by_batches.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
