//! One run, which its cells change and its watchers see.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::report::{Cell, Event, Run, RunRequest, RunState};
use extension::ports::TrialSales;
use mysql_connection::Database;
use shop_domain::{Clock, UserId};
use shop_metrics::Metrics;

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

/// A run, while it runs and afterwards.
pub(crate) struct TrackedRun {
    pub(crate) request: RunRequest,
    pub(crate) operator: UserId,
    run: Mutex<Run>,
    events: broadcast::Sender<Event>,
    pub(crate) cancelled: CancellationToken,
    clock: Clock,
}

impl TrackedRun {
    pub(crate) fn new(parts: &LabParts, run: Run, operator: UserId) -> Self {
        Self {
            request: run.request.clone(),
            operator,
            run: Mutex::new(run),
            events: broadcast::channel(EVENTS_MAX).0,
            cancelled: parts.stopping.child_token(),
            clock: parts.clock.clone(),
        }
    }

    /// The present state, and the events from then on.
    pub(crate) fn watch(&self) -> (Run, broadcast::Receiver<Event>) {
        // Under one lock with the changes, so that none falls in between.
        let run = self.run();
        (run.clone(), self.events.subscribe())
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

    /// Its present state, locked.
    pub(crate) fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
