//! The locks that strategies work with.

use std::sync::Arc;

use crate::lock;

/// The locks beside the main one, each a kind of the library's list.
#[derive(Clone)]
#[expect(missing_docs, reason = "each is named like its kind")]
pub struct Locks {
    pub reentrant: Arc<dyn lock::Mutex>,
    pub fair: Arc<dyn lock::Mutex>,
    pub plain: Arc<dyn lock::Mutex>,
    pub setnx_expire: Arc<dyn lock::Mutex>,
    pub setnx: Arc<dyn lock::Mutex>,
    pub getset: Arc<dyn lock::Mutex>,
    pub table: Arc<dyn lock::Mutex>,
    pub named: Arc<dyn lock::Mutex>,
    /// `None` where its servers are not configured.
    pub redlock: Option<Arc<dyn lock::Mutex>>,
    pub local: Arc<dyn lock::Mutex>,
    /// `None` when no etcd is configured.
    pub etcd: Option<Arc<dyn lock::Mutex>>,
    /// `None` where ZooKeeper is not configured, as with every kind on it.
    pub zookeeper: Option<Arc<dyn lock::Mutex>>,
    pub zookeeper_spin: Option<Arc<dyn lock::Mutex>>,
}
