//! The connections that batches are written on. A batch that ends hands its connection to the next
//! one, of whichever item, so that the large statements of a batch are prepared once on each, and an
//! item that is not sold any more keeps none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rows::item::stock::StockRow;
use crate::write::kept_connections::{KeptConnection, KeptConnections};
use mysql_connection::Database;
use shop_domain::ItemId;

/// The connections of batches. Clones share them.
#[derive(Clone, Debug)]
pub struct BatchConnections {
    connections: KeptConnections,
    /// A permit for each.
    free: Arc<Semaphore>,
}

impl BatchConnections {
    /// At most `count` connections of `pool`, which has as many and no other user.
    #[must_use]
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
