//! Connections that the arbiter keeps from one order to the next.
//!
//! A connection that returns to the pool is rolled back first, and one that leaves it may be pinged.
//! Both are round trips for nothing after a transaction that has ended well a moment ago. So the
//! arbiter keeps such a connection for the next order, at most half of the pool's. One that was not
//! used for a second goes the pool's way: it may have died meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{MySql, MySqlPool};

use crate::store::mysql::Destination;

/// A connection that was unused for longer goes back to the pool.
const UNUSED_MAX: Duration = Duration::from_secs(1);
/// The arbiter keeps at most the pool's connections divided by this, so that the others find some.
const SHARE: u32 = 2;

/// The kept connections of a pool. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct KeptConnections {
    pool: MySqlPool,
    /// The last one is the last that was used.
    unused: Arc<Mutex<Vec<Kept>>>,
    kept_max: usize,
}

/// A connection with the server that it leads to.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) connection: PoolConnection<MySql>,
    pub(super) destination: Destination,
    used_at: Instant,
}

impl KeptConnections {
    /// Keeps connections of `pool`, none at first.
    pub(super) fn new(pool: MySqlPool) -> Self {
        let kept_max = (pool.options().get_max_connections() / SHARE) as usize;
        Self { pool, unused: Arc::default(), kept_max }
    }

    /// The connection that was used last, or one of the pool.
    ///
    /// # Errors
    /// The database's, when the pool has none.
    pub(super) async fn get(&self) -> sqlx::Result<Kept> {
        if let Some(kept) = self.last_used() {
            return Ok(kept);
        }
        let destination = Destination::of(&self.pool);
        let connection = self.pool.acquire().await?;
        Ok(Kept { connection, destination, used_at: Instant::now() })
    }

    fn last_used(&self) -> Option<Kept> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = unused.pop()?;
        if kept.used_at.elapsed() < UNUSED_MAX && !kept.destination.has_changed() {
            return Some(kept);
        }
        // The others were unused for longer. Dropped outside the lock, they go back to the pool.
        let others = std::mem::take(&mut *unused);
        drop(unused);
        drop((kept, others));
        None
    }

    /// Keeps a connection whose transaction has ended. Dropping it instead returns it to the pool.
    pub(super) fn keep(&self, mut kept: Kept) {
        if kept.destination.has_changed() {
            return;
        }
        kept.used_at = Instant::now();
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < self.kept_max {
            unused.push(kept);
        }
    }
}
