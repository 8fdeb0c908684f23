//! The runs of the lab: one at a time, and the last ones.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::plan::Plan;
use crate::report::{Cell, Event, Run, RunRequest, RunState};
use crate::run;
use extension::ports::TrialSales;
use ledger::Database;
use shop_domain::{Clock, OrderId, UserId};
use shop_metrics::Metrics;

/// Runs that are kept.
const RUNS_MAX: usize = 20;
/// Events that wait for a slow watcher; a watcher that misses some gets the whole run again.
const EVENTS_MAX: usize = 256;

/// The parts of the service that the lab uses.
pub struct LabParts {
    /// Creates its items, buys them and ends their sales.
    pub sales: Arc<dyn TrialSales>,
    /// Where the orders are read.
    pub pool: Database,
    /// Counts the arbiter's refusals.
    pub metrics: Metrics,
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
    pub(crate) request: RunRequest,
    pub(crate) operator: UserId,
    run: Mutex<Run>,
    events: broadcast::Sender<Event>,
    pub(crate) cancelled: CancellationToken,
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

    pub(crate) fn cell(&self, index: usize) -> Cell {
        self.run().cells[index].clone()
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        self.run().cells.clone()
    }

    /// Stores a cell and sends it to the watchers.
    pub(crate) fn update(&self, cell: Cell) {
        let mut run = self.run();
        let index = cell.index;
        run.cells[index] = cell.clone();
        self.publish(Event::Cell(Box::new(cell)));
    }

    /// Sends an event to the watchers, if there are any.
    pub(crate) fn publish(&self, event: Event) {
        let _ = self.events.send(event);
    }

    pub(crate) fn finish(&self, state: RunState) {
        let mut run = self.run();
        run.state = state;
        run.finished_at = Some(self.clock.now());
        self.publish(Event::Done);
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
