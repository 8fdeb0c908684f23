//! The runs of the lab: one at a time, and the last ones.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::sync::broadcast;

use crate::plan::Plan;
use crate::report::{Event, Run, RunState};
use crate::run;
use crate::tracked::TrackedRun;
use extension::Core;
use shop_domain::{OrderId, UserId};

/// Runs that are kept.
const RUNS_MAX: usize = 20;

/// The lab. Clones share it.
#[derive(Clone)]
pub struct Lab {
    core: Arc<Core>,
    /// Newest first.
    runs: Arc<Mutex<VecDeque<Arc<TrackedRun>>>>,
}

impl Lab {
    /// Makes a lab without runs.
    pub fn new(core: Core) -> Self {
        Self { core: Arc::new(core), runs: Arc::default() }
    }

    /// Starts a run for an operator; it goes on by itself. `None` while another one runs.
    pub fn start(&self, plan: &Plan, operator: UserId) -> Option<Run> {
        let (cells, chosen): (Vec<_>, Vec<_>) = plan.cells().into_iter().unzip();
        let mut runs = self.runs();
        if runs.front().is_some_and(|newest| newest.run().state == RunState::Running) {
            return None;
        }
        let run = Run {
            id: OrderId::generate().to_string(),
            state: RunState::Running,
            created_at: self.core.kit.clock.now(),
            finished_at: None,
            request: plan.request.clone(),
            cells,
        };
        let running = Arc::new(TrackedRun::new(&self.core.kit, run.clone(), operator));
        runs.push_front(Arc::clone(&running));
        runs.truncate(RUNS_MAX);
        let core = Arc::clone(&self.core);
        // A stop waits for it.
        self.core.kit.lifecycle.purchases().spawn(async move {
            let work = AssertUnwindSafe(run::run(&core, &running, chosen)).catch_unwind();
            if work.await.is_err() {
                tracing::error!(run = running.run().id, "lab run panicked");
                running.finish(RunState::Failed);
            }
        });
        Some(run)
    }

    /// The last runs, newest first.
    pub fn list(&self) -> Vec<Run> {
        self.runs().iter().map(|running| running.run().clone()).collect()
    }

    /// A run by its id.
    pub fn find(&self, id: &str) -> Option<Run> {
        self.running(id).map(|running| running.run().clone())
    }

    /// Ends a run; one that has ended stays as it is. Purchases under way finish by themselves.
    pub fn cancel(&self, id: &str) -> Option<Run> {
        let running = self.running(id)?;
        running.cancelled.cancel();
        Some(running.run().clone())
    }

    /// The present state of a run, and its events from then on.
    pub fn watch(&self, id: &str) -> Option<(Run, broadcast::Receiver<Event>)> {
        self.running(id).map(|running| running.watch())
    }

    fn running(&self, id: &str) -> Option<Arc<TrackedRun>> {
        self.runs().iter().find(|running| running.run().id == id).cloned()
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<Arc<TrackedRun>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
