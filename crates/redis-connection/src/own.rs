//! Connections for one caller at a time, for WATCH.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::node::Node;
use crate::refusal::Failure;

/// Connections lent to single callers at once.
pub const OWN_CONNECTIONS_MAX: usize = 64;

pub(crate) struct OwnConnections {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<(Node, MultiplexedConnection)>>,
}

/// A connection lent to one user, to the server of a key that it watches. Give it back with
/// [`OwnConnection::keep`] when its state is clean. If it is dropped instead, it is closed, which
/// ends its WATCH, and all idle connections are closed too: they may have the same fault.
pub struct OwnConnection {
    /// The connection.
    pub connection: MultiplexedConnection,
    node: Node,
    kept: bool,
    pool: Arc<OwnConnections>,
    _permit: OwnedSemaphorePermit,
}

impl OwnConnections {
    /// Lends a connection to `node`, which is made if none is idle.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub(crate) async fn lend(self: &Arc<Self>, node: &Node) -> Result<OwnConnection, Failure> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let closed = |_| Failure::Unknown(std::io::Error::other("the pool is closed").into());
        let permit = permit.map_err(closed)?;
        let connection = match self.take(node) {
            Some(connection) => connection,
            None => node.own().await.map_err(Failure::NotConnected)?,
        };
        let pool = Arc::clone(self);
        let node = node.clone();
        Ok(OwnConnection { connection, node, kept: false, pool, _permit: permit })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Node, MultiplexedConnection)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, node: &Node) -> Option<MultiplexedConnection> {
        let mut idle = self.idle();
        let index = idle.iter().rposition(|(other, _)| other.is(node))?;
        Some(idle.swap_remove(index).1)
    }
}

impl Default for OwnConnections {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(OWN_CONNECTIONS_MAX)), idle: Mutex::default() }
    }
}

impl OwnConnection {
    /// Gives the connection back: nothing is watched on it, and no command is in flight.
    pub fn keep(mut self) {
        self.kept = true;
        self.pool.idle().push((self.node.clone(), self.connection.clone()));
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if !self.kept {
            self.pool.idle().clear();
        }
    }
}
