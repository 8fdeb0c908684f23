//! The connections that batches are written on. A busy writer keeps its own, so that the large
//! statements of a batch are prepared once.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{MySql, MySqlPool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::mysql::Destination;

/// The connections that writers keep while they are busy. Clones share them.
#[derive(Clone, Debug)]
pub struct BatchConnections {
    pool: MySqlPool,
    free: Arc<Semaphore>,
}

impl BatchConnections {
    /// Makes a pool of at most `count` kept connections of `pool`, which has as many and no other
    /// user.
    #[must_use]
    pub fn new(pool: MySqlPool, count: u32) -> Self {
        Self { pool, free: Arc::new(Semaphore::new(count as usize)) }
    }

    /// One to keep, or one of the common pool when all are taken.
    pub(super) async fn get(&self, common: &MySqlPool) -> sqlx::Result<Own> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        let pool = if permit.is_some() { &self.pool } else { common };
        let destination = Destination::of(pool);
        Ok(Own { connection: pool.acquire().await?, destination, permit })
    }
}

/// A connection and the right to keep it. The connection is dropped first.
pub(super) struct Own {
    pub(super) connection: PoolConnection<MySql>,
    /// The server that it leads to.
    pub(super) destination: Destination,
    permit: Option<OwnedSemaphorePermit>,
}

impl Own {
    /// The connection, if it may be kept for the next batch; otherwise it goes back to its pool.
    pub(super) fn kept(self) -> Option<Self> {
        self.permit.is_some().then_some(self)
    }
}
