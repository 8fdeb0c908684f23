//! What stands behind the connection, for callers that need more than commands: subscribers, checks of
//! each server's settings, readiness.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use redis::{Cmd, RedisResult, Value, from_redis_value};
use tokio::sync::watch;

use crate::cluster::SlotMap;
use crate::connection::{Servers, SharedConnection};
use crate::node::Node;
use crate::refusal::is_command_refused;
use crate::slot::Slot;

/// What stands behind a connection now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// `single`, `sentinel` or `cluster`.
    pub shape: &'static str,
    /// Servers that take writes.
    pub primaries: usize,
    /// Servers that follow them.
    pub replicas: usize,
}

/// The primaries of a connection, and their changes.
pub struct Primaries(Watch);

enum Watch {
    Single(Node),
    Sentinel(watch::Receiver<Option<Node>>),
    Cluster(watch::Receiver<Arc<SlotMap>>),
}

impl SharedConnection {
    /// `single`, `sentinel` or `cluster`.
    #[must_use]
    pub fn shape(&self) -> &'static str {
        match self.servers() {
            Servers::Single(_) => "single",
            Servers::Sentinel(_) => "sentinel",
            Servers::Cluster(_) => "cluster",
        }
    }

    /// Counts the servers.
    ///
    /// # Errors
    /// When no server tells.
    pub async fn topology(&self) -> RedisResult<Topology> {
        let primaries = self.primaries().await?;
        let replicas = match self.servers() {
            Servers::Single(node) => replicas_of(node).await?,
            Servers::Sentinel(sentinels) => replicas_of(&sentinels.primary().await?).await?,
            Servers::Cluster(cluster) => cluster.map().replicas,
        };
        Ok(Topology { shape: self.shape(), primaries: primaries.len(), replicas })
    }

    /// The servers that take writes.
    ///
    /// # Errors
    /// When none is known and none can be found.
    pub async fn primaries(&self) -> RedisResult<Vec<Node>> {
        let any = self.any_primary().await?;
        Ok(match self.servers() {
            Servers::Cluster(cluster) => cluster.map().primaries.clone(),
            _ => vec![any],
        })
    }

    /// One of the servers that take writes.
    ///
    /// # Errors
    /// When none is known and none can be found.
    pub async fn any_primary(&self) -> RedisResult<Node> {
        self.keep();
        self.server_of(None).await
    }

    /// Sends a command to every primary at once.
    ///
    /// # Errors
    /// When no primary is known.
    pub async fn ask_each(&self, command: &Cmd) -> RedisResult<Vec<RedisResult<Value>>> {
        let primaries = self.primaries().await?;
        Ok(join_all(primaries.iter().map(|primary| primary.ask(command))).await)
    }

    /// The server of the keys with this hash tag, as far as it is known now.
    #[must_use]
    pub fn server_of_tag(&self, tag: &str) -> Option<Node> {
        match self.servers() {
            Servers::Single(node) => Some(node.clone()),
            Servers::Sentinel(sentinels) => sentinels.known_primary(),
            Servers::Cluster(cluster) => cluster.map().owner(Slot::of(tag.as_bytes())).cloned(),
        }
    }

    /// The primaries, as a channel that reports each change.
    #[must_use]
    pub fn watch_primaries(&self) -> Primaries {
        Primaries(match self.servers() {
            Servers::Single(node) => Watch::Single(node.clone()),
            Servers::Sentinel(sentinels) => Watch::Sentinel(sentinels.changes()),
            Servers::Cluster(cluster) => Watch::Cluster(cluster.changes()),
        })
    }
}

impl Primaries {
    /// The primaries as far as they are known now.
    #[must_use]
    pub fn now(&mut self) -> Vec<Node> {
        match &mut self.0 {
            Watch::Single(node) => vec![node.clone()],
            Watch::Sentinel(primary) => primary.borrow_and_update().iter().cloned().collect(),
            Watch::Cluster(map) => map.borrow_and_update().primaries.clone(),
        }
    }

    /// Waits until they are read again; for ever where they do not change.
    pub async fn changed(&mut self) {
        let changed = match &mut self.0 {
            Watch::Single(_) => return std::future::pending().await,
            Watch::Sentinel(primary) => primary.changed().await,
            Watch::Cluster(map) => map.changed().await,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The replicas of a server; none are known where the account may not ask.
async fn replicas_of(node: &Node) -> RedisResult<usize> {
    let role = match node.ask(&redis::cmd("ROLE")).await {
        Err(error) if is_command_refused(&error) => return Ok(0),
        role => role?,
    };
    let role: Vec<Value> = from_redis_value(role)?;
    Ok(match role.get(2) {
        Some(Value::Array(replicas)) => replicas.len(),
        _ => 0,
    })
}

impl fmt::Display for Topology {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape, primaries, replicas } = self;
        write!(formatter, "{shape}, primaries: {primaries}, replicas: {replicas}")
    }
}
