//! What batches have of their own: connections and a runtime.
//!
//! A batch that ends hands its connection to the next one, of whichever item, so that the large statements of a batch are
//! prepared once on each, and an item that is not sold any more keeps none.
//!
//! A batch has half a dozen round trips to the ledger. On a runtime that also serves connections, each
//! answer of the ledger waits until the runtime has gone once through all tasks that are ready; and the
//! more buyers wait, the more of them there are. So batches have a runtime that serves nobody.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::rows::item::items::StockRow;
use crate::write::kept_connections::{KeptConnection, KeptConnections};
use mysql_connection::Database;
use shop_domain::ItemId;

/// The connections of batches. Clones share them.
#[derive(Clone)]
pub struct BatchConnections {
    connections: KeptConnections,
    /// A permit for each.
    free: Arc<Semaphore>,
}

impl BatchConnections {
    /// At most `count` connections of `pool`, which has as many and no other user.
    pub fn new(pool: Database, count: u32) -> Self {
        let free = Arc::new(Semaphore::new(count as usize));
        Self { connections: KeptConnections::new(pool, count), free }
    }

    /// The connection of the batch that ended last, or one of `common` when all are in use.
    ///
    /// # Errors
    /// The database's, when the pool has none.
    pub(super) async fn get(&self, common: &KeptConnections) -> sqlx::Result<BatchConnection> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        let source = if permit.is_some() { &self.connections } else { common };
        Ok(BatchConnection { kept: source.get().await?, source: source.clone(), _permit: permit })
    }

    /// Reads the stock row of an item without a lock.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn stock(
        &self,
        common: &KeptConnections,
        item: ItemId,
    ) -> sqlx::Result<Option<StockRow>> {
        let BatchConnection { kept, source, _permit } = self.get(common).await?;
        source.read_stock(kept, item).await
    }
}

/// A connection for one batch. Dropping it returns it to its pool, before the permit is free.
pub(super) struct BatchConnection {
    pub(super) kept: KeptConnection,
    source: KeptConnections,
    _permit: Option<OwnedSemaphorePermit>,
}

impl BatchConnection {
    /// Keeps the connection, whose transaction has ended, for the next batch.
    pub(super) fn keep(self) {
        let Self { kept, source, _permit } = self;
        source.keep(kept);
    }
}

/// Starts the tasks that write batches. Clones share the tracker.
#[derive(Clone, Debug)]
pub struct BatchTasks {
    tracker: TaskTracker,
    /// `None`: the runtime of whoever starts a task.
    runtime: Option<Handle>,
}

impl BatchTasks {
    /// Tasks on `runtime`, tracked by `tracker`.
    pub fn on(runtime: Option<Handle>, tracker: TaskTracker) -> Self {
        Self { tracker, runtime }
    }

    /// Starts a task.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => self.tracker.spawn_on(task, runtime),
            None => self.tracker.spawn(task),
        };
    }
}

impl From<TaskTracker> for BatchTasks {
    fn from(tracker: TaskTracker) -> Self {
        Self::on(None, tracker)
    }
}
