//! Connections that are kept from one order, or one batch, to the next.
//!
//! A connection that returns to the pool is rolled back first, and one that leaves it may be pinged.
//! Both are round trips for nothing after a transaction that has ended well a moment ago. So such a
//! connection is kept for the next order, whichever item that is for. One that was not used for a
//! second goes the pool's way: it may have died meanwhile, and the server closes it when it has idled
//! for long.
//!
//! With several hosts, the server of a kept connection is not asked before each use whether it still takes writes. An
//! order finds out; a refusal, which only reads, may come from a writer that was replaced a moment ago.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::MySql;
use sqlx::pool::PoolConnection;

use crate::rows::item::items::{self, StockRow};
use crate::work::breaker::Breaker;
use mysql_connection::limits::is_silence;
use mysql_connection::{Database, Destination, Fault, all_in_use};
use shop_domain::ItemId;

/// A connection that was unused for longer goes back to the pool.
const UNUSED_MAX: Duration = Duration::from_secs(1);

/// The kept connections of a pool. Clones share them.
#[derive(Clone)]
pub(super) struct KeptConnections {
    pool: Database,
    /// Knows whether the server answers when the pool has no connection.
    breaker: Option<Arc<Breaker>>,
    /// In the order of their last use: the last one was used last.
    unused: Arc<Mutex<Vec<KeptConnection>>>,
    kept_max: usize,
}

/// A connection with the server that it leads to.
#[derive(Debug)]
pub(super) struct KeptConnection {
    pub(super) connection: PoolConnection<MySql>,
    pub(super) destination: Destination,
    used_at: Instant,
}

impl KeptConnections {
    /// Keeps at most `kept_max` connections of `pool`, none at first.
    pub(super) fn new(pool: Database, kept_max: u32) -> Self {
        Self { pool, breaker: None, unused: Arc::default(), kept_max: kept_max as usize }
    }

    /// The connections, where `breaker` tells a pool whose connections are all in use from a server that is away.
    pub(super) fn checked_by(self, breaker: Breaker) -> Self {
        Self { breaker: Some(Arc::new(breaker)), ..self }
    }

    /// The connection that was used last, or one of the pool.
    ///
    /// # Errors
    /// The database's, when the pool has none; [`all_in_use`] when the server answers all the same.
    pub(super) async fn get(&self) -> sqlx::Result<KeptConnection> {
        match self.last_used() {
            Some(kept) => Ok(kept),
            None => self.of_pool().await,
        }
    }

    async fn of_pool(&self) -> sqlx::Result<KeptConnection> {
        let destination = Destination::of(&self.pool);
        match self.pool.acquire().await {
            Ok(connection) => {
                Ok(KeptConnection { connection, destination, used_at: Instant::now() })
            }
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            Err(sqlx::Error::PoolTimedOut) if Box::pin(self.is_alive()).await => Err(all_in_use()),
            Err(error) => Err(error),
        }
    }

    async fn is_alive(&self) -> bool {
        match &self.breaker {
            Some(breaker) => breaker.is_alive().await,
            None => false,
        }
    }

    fn last_used(&self) -> Option<KeptConnection> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = unused.pop()?;
        if kept.used_at.elapsed() < UNUSED_MAX && !kept.destination.has_changed() {
            return Some(kept);
        }
        drop(unused);
        // The others were unused for longer.
        drop(kept);
        self.release_unused();
        None
    }

    /// Gives the unused connections back to the pool, which pings or closes them.
    fn release_unused(&self) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let released = std::mem::take(&mut *unused);
        // Dropped outside the lock.
        drop(unused);
        drop(released);
    }

    /// Reads the stock row of an item without a lock, on `kept`, and keeps the connection. When the
    /// server has closed it, the row is read once more, on one of the pool: nothing was written, and a
    /// connection that was closed while nobody used it is no failure of the ledger.
    ///
    /// # Errors
    /// The database's.
    pub(super) async fn read_stock(
        &self,
        mut kept: KeptConnection,
        item: ItemId,
    ) -> sqlx::Result<Option<StockRow>> {
        let mut read = items::read_stock(&mut *kept.connection, item).await;
        if let Err(error) = &read
            && Fault::of(error) == Fault::Connection
            && !is_silence(error)
        {
            tracing::debug!(%error, "stock read again on another connection");
            // First this: nobody waits for a second connection while it holds one. The unused ones
            // were closed too, or share the link.
            drop(kept);
            self.release_unused();
            kept = self.of_pool().await?;
            read = items::read_stock(&mut *kept.connection, item).await;
        }
        let row = read?;
        self.keep(kept);
        Ok(row)
    }

    /// Keeps a connection whose transaction has ended. Dropping it instead returns it to the pool.
    pub(super) fn keep(&self, mut kept: KeptConnection) {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::work::breaker::Breakers;
    use crate::write::tests::pool_at;
    use shop_metrics::Metrics;

    /// The pool gets no connection: its server accepts them and says nothing.
    #[tokio::test]
    async fn all_connections_are_in_use_only_where_the_server_lives() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("an address").port();
        for (lives, fault) in [(true, Fault::AllInUse), (false, Fault::Connection)] {
            let breaker = Breakers::new(&Metrics::new()).mysql;
            breaker.check_by(Box::new(move || Box::pin(async move { lives })));
            let kept = KeptConnections::new(pool_at(port), 1).checked_by(breaker);
            let error = kept.get().await.expect_err("no connection");
            assert_eq!(Fault::of(&error), fault, "{error}");
        }
    }
}
