//! Commands on a connection that one caller has alone.

use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};

use crate::cluster::unreachable_cluster;
use crate::connection::{Exchange, SharedConnection};
use crate::node::Node;
use crate::own::{OwnConnection, OwnConnections};
use crate::refusal::{Failure, Refusal};
use crate::slot::Slot;

impl SharedConnection {
    /// Waits for one of the [`OWN_CONNECTIONS_MAX`](crate::OWN_CONNECTIONS_MAX) connections that are lent to single callers, and
    /// watches the key on it.
    ///
    /// # Errors
    /// When no server can be reached that has the key.
    pub async fn watch(&self, key: &str) -> RedisResult<OwnConnection> {
        let mut command = redis::cmd("WATCH");
        command.arg(key);
        let pool = self.own_connections();
        let watching = LentWatch { pool, command: &command, lent: Mutex::default() };
        self.exchange(&watching, &command).await?.extract_error()?;
        let lent = watching.lent.into_inner().unwrap_or_else(PoisonError::into_inner);
        lent.ok_or_else(|| unreachable_cluster("no connection watches the key"))
    }

    /// Makes a connection for one caller, to the server of a key.
    ///
    /// # Errors
    /// When no server can be reached that has the key.
    pub async fn own_connection(&self, key: &str) -> RedisResult<MultiplexedConnection> {
        self.keep();
        self.server_of(Some(Slot::of(key.as_bytes()))).await?.own().await
    }
}

/// A WATCH on a lent connection, and the connection on which it has run.
struct LentWatch<'a> {
    pool: &'a Arc<OwnConnections>,
    command: &'a Cmd,
    lent: Mutex<Option<OwnConnection>>,
}

impl Exchange for LentWatch<'_> {
    async fn send(&self, node: &Node, asked_first: bool) -> Result<Value, Failure> {
        if asked_first {
            // A transaction cannot follow a slot on its way.
            let moves = unreachable_cluster("the slot of the key is being moved");
            return Err(Failure::NotConnected(moves));
        }
        let mut own = self.pool.lend(node).await?;
        let answer = own.connection.send_packed_command(self.command).await;
        let answer = answer.map_err(Failure::Unknown)?;
        if Refusal::of_value(&answer).is_none() {
            *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        }
        Ok(answer)
    }
}
