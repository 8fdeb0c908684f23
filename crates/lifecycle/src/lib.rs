//! Start, stop and crash of the service. Every spawned task is registered here.
//!
//! A stop has three steps, with one time limit for all: the listener closes and event streams end;
//! running purchases and requests finish; workers end. A second signal ends the process at once. A
//! worker that ends by itself stops the service: a restart is better than a service without it.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of the service and its stop signal. Clones share them.
#[derive(Clone)]
pub struct Lifecycle {
    stopping: CancellationToken,
    /// Fires when no purchase or request needs the workers any more.
    drained: CancellationToken,
    purchases: TaskTracker,
    connections: TaskTracker,
    workers: TaskTracker,
    crash: Arc<Mutex<Option<&'static str>>>,
}

/// The end of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopResult {
    /// The service was asked to stop, and all tasks finished in time.
    Clean,
    /// The service was asked to stop; a task did not finish in time, or a second signal came.
    Cut,
    /// The named worker ended by itself.
    Crashed(&'static str),
}

impl Lifecycle {
    /// Makes a lifecycle without tasks.
    pub fn new() -> Self {
        Self {
            stopping: CancellationToken::new(),
            drained: CancellationToken::new(),
            purchases: TaskTracker::new(),
            connections: TaskTracker::new(),
            workers: TaskTracker::new(),
            crash: Arc::default(),
        }
    }

    /// Fires when the service begins to stop.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Fires when the workers have to end, which is after the last purchase.
    pub fn drained(&self) -> CancellationToken {
        self.drained.clone()
    }

    /// Returns whether the service is stopping and takes no new work.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Tracks the tasks of purchases, which outlive their connections.
    pub fn purchases(&self) -> &TaskTracker {
        &self.purchases
    }

    /// Tracks the tasks of connections.
    pub fn connections(&self) -> &TaskTracker {
        &self.connections
    }

    /// Tracks the workers, and tasks of theirs that outlive their own turn.
    pub fn workers(&self) -> &TaskTracker {
        &self.workers
    }

    /// Starts a worker, which must not end before [`Lifecycle::drained`] fires; if it does, the
    /// service stops as [`StopResult::Crashed`].
    pub fn worker(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let lifecycle = self.clone();
        self.workers.spawn(async move {
            let task = tokio::spawn(work);
            let panicked = task.await.is_err();
            if !lifecycle.drained.is_cancelled() && !lifecycle.stopping.is_cancelled() {
                tracing::error!(worker = name, panicked, "worker {name} ended by itself; stopping");
                lifecycle.crash.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(name);
                lifecycle.stopping.cancel();
            }
        });
    }

    /// Starts to stop the service.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Waits for the stop, then for at most `drain_max` until all tasks have finished.
    pub async fn run_until_stopped(&self, drain_max: Duration) -> StopResult {
        self.stopping.cancelled().await;
        self.purchases.close();
        self.connections.close();
        self.workers.close();
        let finish = async {
            self.connections.wait().await;
            self.purchases.wait().await;
            self.drained.cancel();
            self.workers.wait().await;
        };
        let in_time = tokio::time::timeout(drain_max, finish).await.is_ok();
        self.drained.cancel();
        let crash = *self.crash.lock().unwrap_or_else(PoisonError::into_inner);
        match crash {
            Some(name) => StopResult::Crashed(name),
            None if in_time => StopResult::Clean,
            None => StopResult::Cut,
        }
    }

    /// Stops the service at the first SIGTERM or SIGINT, and returns at the second.
    ///
    /// # Errors
    /// When no signal handler can be installed.
    pub async fn second_signal(&self) -> std::io::Result<()> {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        for count in 1..=2 {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if count == 1 {
                tracing::info!("stopping; a second signal ends the process at once");
                self.stop();
            }
        }
        Ok(())
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}
