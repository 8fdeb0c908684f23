//! Connections for one caller at a time, for WATCH.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connection::SharedConnection;
use crate::node::Node;
use crate::refusal::Refusal;
use crate::slot::Slot;

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

impl SharedConnection {
    /// Waits for one of the [`OWN_CONNECTIONS_MAX`] connections that are lent to single callers, and
    /// watches the key on it.
    ///
    /// # Errors
    /// When no server can be reached that has the key.
    pub async fn watch(&self, key: &str) -> RedisResult<OwnConnection> {
        self.keep();
        let slot = Some(Slot::of(key.as_bytes()));
        let mut tries = self.tries();
        let mut named = None;
        loop {
            let node = match named.take() {
                Some((node, false)) => Ok(node),
                // A transaction cannot follow a slot on its way.
                _ => self.server_of(slot).await,
            };
            let (node, error) = match node {
                Ok(node) => match self.lend(&node, key).await {
                    Ok(own) => return Ok(own),
                    Err((refusal, error)) => (Some(node), (refusal, error)),
                },
                Err(error) => (None, (Some(Refusal::NotConnected), error)),
            };
            let (Some(refusal), error) = error else { return Err(error.1) };
            let is_single = matches!(self.servers(), crate::connection::Servers::Single(_));
            if is_single || !tries.again(&refusal).await {
                return Err(error);
            }
            named = self.follow(&refusal, node.as_ref()).await;
        }
    }

    /// Makes a connection for one caller, to the server of a key.
    ///
    /// # Errors
    /// When no server can be reached that has the key.
    pub async fn own_connection(&self, key: &str) -> RedisResult<MultiplexedConnection> {
        self.keep();
        self.server_of(Some(Slot::of(key.as_bytes()))).await?.own().await
    }

    async fn lend(
        &self,
        node: &Node,
        key: &str,
    ) -> Result<OwnConnection, (Option<Refusal>, RedisError)> {
        let pool = self.own_connections();
        let permit = Arc::clone(&pool.permits)
            .acquire_owned()
            .await
            .map_err(|_| (None, RedisError::from(std::io::Error::other("the pool is closed"))))?;
        let connection = match pool.take(node) {
            Some(connection) => connection,
            None => node.own().await.map_err(|error| (Some(Refusal::NotConnected), error))?,
        };
        let pool = Arc::clone(pool);
        let node = node.clone();
        let mut own = OwnConnection { connection, node, kept: false, pool, _permit: permit };
        match redis::cmd("WATCH").arg(key).exec_async(&mut own.connection).await {
            Ok(()) => Ok(own),
            Err(error) => Err((Refusal::of_error(&error), error)),
        }
    }
}

impl OwnConnections {
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
