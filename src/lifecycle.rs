//! Start, stop and crash. Every spawned task is registered here.
//!
//! A stop has three steps, all within one bound: the listener closes and streams end; running
//! purchases and requests finish; workers end. A second signal stops hard. A worker that ends by
//! itself takes the process down: better restarted than half alive.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The running service's tasks and its stop signal. Clones share them.
#[derive(Clone)]
pub struct Lifecycle {
    stopping: CancellationToken,
    /// Fires once nothing needs the workers any more.
    drained: CancellationToken,
    purchases: TaskTracker,
    connections: TaskTracker,
    workers: TaskTracker,
    crash: Arc<Mutex<Option<&'static str>>>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Asked to stop, and everything finished.
    Clean,
    /// Asked to stop, and something did not finish in time, or a second signal came.
    Cut,
    /// A worker ended by itself.
    Crashed(&'static str),
}

impl Lifecycle {
    /// Nothing runs yet.
    #[must_use]
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
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Fires when workers are to end: after the last purchase has.
    #[must_use]
    pub fn drained(&self) -> CancellationToken {
        self.drained.clone()
    }

    /// Whether the service takes no new work.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Where purchases run; they outlive the connections that asked for them.
    #[must_use]
    pub fn purchases(&self) -> &TaskTracker {
        &self.purchases
    }

    /// Where connections run.
    #[must_use]
    pub fn connections(&self) -> &TaskTracker {
        &self.connections
    }

    /// Runs a worker that must not end before [`Lifecycle::drained`] fires.
    pub fn worker(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let lifecycle = self.clone();
        self.workers.spawn(async move {
            let task = tokio::spawn(work);
            let panicked = task.await.is_err();
            if !lifecycle.drained.is_cancelled() && !lifecycle.stopping.is_cancelled() {
                tracing::error!(worker = name, panicked, "a worker ended by itself; stopping");
                lifecycle.crash.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(name);
                lifecycle.stopping.cancel();
            }
        });
    }

    /// Begins to stop.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Waits for the stop, however it comes about, then lets everything finish within `bound`.
    pub async fn run_until_stopped(&self, bound: Duration) -> Ended {
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
        let in_time = tokio::time::timeout(bound, finish).await.is_ok();
        self.drained.cancel();
        let crash = *self.crash.lock().unwrap_or_else(PoisonError::into_inner);
        match crash {
            Some(name) => Ended::Crashed(name),
            None if in_time => Ended::Clean,
            None => Ended::Cut,
        }
    }

    /// Stops on SIGTERM or SIGINT; answers after the second one.
    ///
    /// # Errors
    /// When signals cannot be heard.
    pub async fn second_signal(&self) -> std::io::Result<()> {
        let (mut term, mut int) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        for count in 1..=2 {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if count == 1 {
                tracing::info!("stopping; a second signal stops hard");
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
