//! The background tasks of a lock: on each tokio runtime that acquires, the scheduler of renewals and
//! a worker for releases.
//!
//! A task ends with its runtime, and a lock can be made on one runtime and used on another. So a hold
//! belongs to the runtime on which it was acquired: there it is renewed, and when that runtime ends,
//! the hold is lost.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio_util::task::TaskTracker;

use super::release::{self, ReleaseJob, ReleaseQueue};
use super::renewal::Scheduler;
use super::stats::{Stats, count};
use super::store::LeaseStore;
use crate::threads::Mutex;

/// The background tasks of one lock, by their runtimes.
pub(crate) struct Background {
    store: Arc<dyn LeaseStore>,
    stats: Arc<Stats>,
    /// On which everything in the background runs.
    pub(crate) tasks: TaskTracker,
    workers: Mutex<HashMap<Id, Workers>>,
}

/// The tasks on one runtime. Both end when the lock and its last guard are gone.
struct Workers {
    scheduler: Arc<Scheduler>,
    releases: ReleaseQueue,
}

impl Background {
    pub(crate) fn new(store: Arc<dyn LeaseStore>, stats: Arc<Stats>, tasks: TaskTracker) -> Self {
        Self { store, stats, tasks, workers: Mutex::default() }
    }

    /// The scheduler of the present runtime, started if it does not run.
    pub(crate) fn scheduler(&self) -> Arc<Scheduler> {
        self.on(&Handle::current(), |workers| Arc::clone(&workers.scheduler))
    }

    /// Adds a release. Never waits and never fails: one that does not fit, or for which no runtime is
    /// left, is left to expire.
    pub(crate) fn release(&self, job: ReleaseJob) {
        let mut left = Some(job);
        if let Ok(here) = Handle::try_current() {
            self.on(&here, |workers| release::submit(&workers.releases, &mut left));
        }
        if left.is_some() {
            let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.values().for_each(|workers| release::submit(&workers.releases, &mut left));
        }
        if left.is_some() {
            count(&self.stats.left_to_expire);
        }
    }

    /// Calls `act` with the tasks of a runtime, which are started if they do not run.
    fn on<T>(&self, runtime: &Handle, act: impl FnOnce(&Workers) -> T) -> T {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = workers.get(&runtime.id()).filter(|workers| workers.run()) {
            return act(running);
        }
        workers.retain(|_, workers| workers.run());
        let (releases, jobs) = release::queue();
        let run = release::run(jobs, Arc::clone(&self.store), Arc::clone(&self.stats));
        self.tasks.spawn_on(run, runtime);
        let started = Workers { scheduler: Scheduler::of(runtime), releases };
        let answer = act(&started);
        workers.insert(runtime.id(), started);
        answer
    }
}

impl Workers {
    /// Whether both tasks run.
    fn run(&self) -> bool {
        self.scheduler.runs() && !self.releases.is_closed()
    }
}
