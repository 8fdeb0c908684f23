//! The client of ZooKeeper, in a program that was built with the feature `zookeeper`.

use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::readiness::Probe;
use gates::ZookeeperLocks;

/// The client of ZooKeeper.
#[cfg(feature = "zookeeper")]
pub(super) struct Zookeeper {
    ensemble: std::sync::Arc<leaselock::zookeeper::Ensemble>,
    lease: std::time::Duration,
}

#[cfg(feature = "zookeeper")]
impl Zookeeper {
    /// Makes the client. `None` where ZooKeeper is not configured.
    pub(super) fn configured(config: &Config) -> Result<Option<Self>, String> {
        let hosts = &*config.lock.zookeeper_hosts;
        if hosts.is_empty() {
            return Ok(None);
        }
        let ensemble = leaselock::zookeeper::Ensemble::new(hosts, &config.redis.prefix);
        let ensemble = ensemble.map_err(|error| format!("redis.prefix cannot be used: {error}"))?;
        let lease = std::time::Duration::from_millis(config.lock.lease_ms);
        Ok(Some(Self { ensemble, lease }))
    }

    /// The locks on ZooKeeper.
    pub(super) fn locks(&self, tasks: &TaskTracker) -> ZookeeperLocks {
        use leaselock::zookeeper::{sequential, spin};
        ZookeeperLocks {
            sequential: std::sync::Arc::new(sequential::mutex(&self.ensemble, tasks)),
            spin: std::sync::Arc::new(spin::mutex(&self.ensemble, tasks)),
        }
    }

    /// Asks whether ZooKeeper answers.
    pub(super) fn probe(&self) -> Probe {
        let ensemble = std::sync::Arc::clone(&self.ensemble);
        let lease = self.lease;
        Box::new(move || {
            let ensemble = std::sync::Arc::clone(&ensemble);
            Box::pin(async move { ensemble.ping(lease).await })
        })
    }
}

/// No value of this type exists: this program was built without the client of ZooKeeper.
#[cfg(not(feature = "zookeeper"))]
pub(super) enum Zookeeper {}

#[cfg(not(feature = "zookeeper"))]
impl Zookeeper {
    /// Refuses a configuration that names ZooKeeper.
    pub(super) fn configured(config: &Config) -> Result<Option<Self>, String> {
        if config.lock.zookeeper_hosts.is_empty() {
            return Ok(None);
        }
        Err("lock.zookeeper_hosts is set, and this program was built without the client of ZooKeeper: build it with --features zookeeper".to_owned())
    }

    /// Never called: there is no value.
    pub(super) fn locks(&self, _: &TaskTracker) -> ZookeeperLocks {
        match *self {}
    }

    /// Never called: there is no value.
    pub(super) fn probe(&self) -> Probe {
        match *self {}
    }
}
