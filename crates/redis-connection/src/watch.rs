//! Commands on a connection that one caller has alone.

use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};

use crate::connection::{Servers, SharedConnection};
use crate::node::Node;
use crate::own::OwnConnection;
use crate::refusal::Refusal;
use crate::slot::Slot;

impl SharedConnection {
    /// Waits for one of the [`OWN_CONNECTIONS_MAX`](crate::OWN_CONNECTIONS_MAX) connections that are lent to single callers, and
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
            let is_single = matches!(self.servers(), Servers::Single(_));
            if is_single || !tries.again(&refusal).await {
                return Err(error);
            }
            named = tries.in_time(self.follow(&refusal, node.as_ref())).await;
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
        let mut own = self.own_connections().lend(node).await?;
        match redis::cmd("WATCH").arg(key).exec_async(&mut own.connection).await {
            Ok(()) => Ok(own),
            Err(error) => Err((Refusal::of_error(&error), error)),
        }
    }
}
