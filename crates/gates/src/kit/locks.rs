//! The sources of locks for the lock strategies.

use std::sync::Arc;

use mysql_connection::Database;
use tokio_util::task::TaskTracker;

use crate::redis_store::SharedConnection;
use leaselock::LeasedMutex;
use leaselock::demo::getset::ClockMs;
use leaselock::redis::subscriber::Subscriber;

/// The servers on which locks are kept. Each lock strategy makes its lock from them. Nothing
/// connects before a lock is used.
#[derive(Clone)]
pub struct LockSources {
    /// The main lock, which several strategies share: a token in Redis, with notified waiters.
    pub token: LeasedMutex,
    /// The connection to Redis.
    pub redis: SharedConnection,
    /// The subscription on which Redis locks are notified of a release.
    pub subscriber: Subscriber,
    /// The prefix of every key.
    pub prefix: Arc<str>,
    /// Connections to the database apart from the ledger's: a renewal must not wait behind writes
    /// that wait for the lock.
    pub mysql: Database,
    /// The independent servers of Redlock; empty where they are not configured.
    pub redlock: Vec<SharedConnection>,
    /// `None` where etcd is not configured.
    pub etcd: Option<LeasedMutex>,
    /// `None` where ZooKeeper is not configured.
    pub zookeeper: Option<ZookeeperLocks>,
    /// The wall clock, for the lock that compares timestamps.
    pub now_ms: ClockMs,
    /// The tasks of the locks, which give back what was dropped. They end with the last guard, not
    /// with the service.
    pub tasks: TaskTracker,
}

/// The locks on ZooKeeper.
#[derive(Clone)]
pub struct ZookeeperLocks {
    /// A queue of sequential nodes.
    pub sequential: LeasedMutex,
    /// One node for which all contenders wait.
    pub spin: LeasedMutex,
}
