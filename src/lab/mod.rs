//! The lab: compares strategies inside the service, one run at a time, for the lab's page.
//!
//! A run has a cell (`lane` in JSON) for each strategy, arbiter and round: a fresh lab item, a load
//! generator that buys it through `purchase` without HTTP, and an audit of the ledger against the
//! record of every answer. A run goes on when its creator disconnects, ends when the service stops,
//! and ends the sales of its items. It shares the service with real sales: its purchases pass the
//! same admission and the same pool. It runs in one process, so a gate that breaks with two
//! instances is clean here; `loadtest` can load several.

mod evaluate;
mod load_generator;
mod plan;
mod report;
mod run;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::Catalog;
use crate::purchase::Purchases;
use shop_domain::{Clock, OrderId, UserId};
use shop_metrics::Metrics;

pub use plan::{
    BUYERS_MAX, CELLS_MAX, CONCURRENCY_MAX, ChoiceError, Plan, QUANTITY_MAX, REQUESTS_MAX,
    ROUNDS_MAX, SECONDS_DEFAULT, SECONDS_MAX, STOCK_MAX, StrategyChoice,
};
pub use report::{Arbiters, Cell, CellState, Event, Progress, Run, RunRequest, RunState, Verdict};

/// Runs that are kept.
const RUNS_MAX: usize = 20;
/// Events that wait for a slow watcher; a watcher that misses some gets the whole run again.
const EVENTS_MAX: usize = 256;

/// The parts of the service that the lab uses.
pub struct LabParts {
    /// Creates its items and ends their sales.
    pub catalog: Catalog,
    /// The purchases of the service.
    pub purchases: Purchases,
    /// Counts the arbiter's refusals.
    pub metrics: Metrics,
    /// How old the word "sold out" may be.
    pub sold_out_age: Duration,
    /// The wall clock.
    pub clock: Clock,
    /// The tasks of the runs; a stop waits for them.
    pub tasks: TaskTracker,
    /// Fires when the service begins to stop.
    pub stopping: CancellationToken,
}

/// The lab. Clones share it.
#[derive(Clone)]
pub struct Lab {
    parts: Arc<LabParts>,
    /// Newest first.
    runs: Arc<Mutex<VecDeque<Arc<TrackedRun>>>>,
}

/// Error: another run is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// A run, while it runs and afterwards.
pub(crate) struct TrackedRun {
    request: RunRequest,
    operator: UserId,
    run: Mutex<Run>,
    events: broadcast::Sender<Event>,
    cancelled: CancellationToken,
    clock: Clock,
}

impl Lab {
    /// Makes a lab without runs.
    #[must_use]
    pub fn new(parts: LabParts) -> Self {
        Self { parts: Arc::new(parts), runs: Arc::default() }
    }

    /// Starts a run for an operator; it goes on by itself.
    ///
    /// # Errors
    /// When another one runs.
    pub fn start(&self, plan: &Plan, operator: UserId) -> Result<Run, Busy> {
        let (cells, chosen): (Vec<_>, Vec<_>) = plan.cells().into_iter().unzip();
        let mut runs = self.runs();
        if runs.front().is_some_and(|newest| newest.is_running()) {
            return Err(Busy);
        }
        let run = Run {
            id: OrderId::generate().to_string(),
            state: RunState::Running,
            created_at: self.parts.clock.now(),
            finished_at: None,
            request: plan.request.clone(),
            cells,
        };
        let running = Arc::new(TrackedRun {
            request: plan.request.clone(),
            operator,
            run: Mutex::new(run.clone()),
            events: broadcast::channel(EVENTS_MAX).0,
            cancelled: self.parts.stopping.child_token(),
            clock: self.parts.clock.clone(),
        });
        runs.push_front(Arc::clone(&running));
        runs.truncate(RUNS_MAX);
        let parts = Arc::clone(&self.parts);
        self.parts.tasks.spawn(async move {
            let work = AssertUnwindSafe(run::run(&parts, &running, chosen)).catch_unwind();
            if work.await.is_err() {
                tracing::error!(run = running.snapshot().id, "lab run panicked");
                running.finish(RunState::Failed);
            }
        });
        Ok(run)
    }

    /// The last runs, newest first.
    #[must_use]
    pub fn list(&self) -> Vec<Run> {
        self.runs().iter().map(|running| running.snapshot()).collect()
    }

    /// A run by its id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Run> {
        self.running(id).map(|running| running.snapshot())
    }

    /// Ends a run; one that has ended stays as it is. Purchases under way finish by themselves.
    #[must_use]
    pub fn cancel(&self, id: &str) -> Option<Run> {
        let running = self.running(id)?;
        running.cancelled.cancel();
        Some(running.snapshot())
    }

    /// The present state of a run, and its events from then on.
    #[must_use]
    pub fn watch(&self, id: &str) -> Option<(Run, broadcast::Receiver<Event>)> {
        let running = self.running(id)?;
        // Under one lock with the changes, so that none falls in between.
        let run = running.run();
        Some((run.clone(), running.events.subscribe()))
    }

    fn running(&self, id: &str) -> Option<Arc<TrackedRun>> {
        self.runs().iter().find(|running| running.run().id == id).cloned()
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Arc<TrackedRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrackedRun {
    fn snapshot(&self) -> Run {
        self.run().clone()
    }

    fn is_running(&self) -> bool {
        self.run().state == RunState::Running
    }

    fn cell(&self, index: usize) -> Cell {
        self.run().cells[index].clone()
    }

    fn cells(&self) -> Vec<Cell> {
        self.run().cells.clone()
    }

    /// Stores a cell and sends it to the watchers.
    fn update(&self, cell: Cell) {
        let mut run = self.run();
        let index = cell.index;
        run.cells[index] = cell.clone();
        self.publish(Event::Cell(Box::new(cell)));
    }

    /// Sends an event to the watchers, if there are any.
    fn publish(&self, event: Event) {
        let _ = self.events.send(event);
    }

    fn finish(&self, state: RunState) {
        let mut run = self.run();
        run.state = state;
        run.finished_at = Some(self.clock.now());
        self.publish(Event::Done);
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
