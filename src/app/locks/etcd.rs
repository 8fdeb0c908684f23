//! The client of etcd, in a program that was built with the feature `etcd`.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::readiness::Probe;

/// The client of etcd.
#[cfg(feature = "etcd")]
pub(super) struct Etcd(leaselock::etcd::Client);

#[cfg(feature = "etcd")]
impl Etcd {
    /// Makes the client. `None` where etcd is not configured.
    pub(super) fn configured(config: &Config) -> Result<Option<Self>, String> {
        let endpoints = &config.lock.etcd_endpoints;
        if endpoints.is_empty() {
            return Ok(None);
        }
        let client = leaselock::etcd::Client::new(endpoints);
        let client = client.map_err(|error| format!("lock.etcd_endpoints cannot be used: {error}"));
        Ok(Some(Self(client?)))
    }

    /// The locks on etcd, with keys that begin with `prefix`.
    pub(super) fn locks(
        &self,
        prefix: &str,
        tasks: &TaskTracker,
    ) -> Result<Arc<dyn leaselock::Mutex>, String> {
        let mutex = leaselock::etcd::mutex::mutex(self.0.clone(), prefix, tasks);
        Ok(Arc::new(mutex.map_err(|error| format!("redis.prefix cannot be used: {error}"))?))
    }

    /// Asks whether etcd answers.
    pub(super) fn probe(&self) -> Probe {
        let client = self.0.clone();
        Box::new(move || {
            let client = client.clone();
            Box::pin(async move { client.ping().await })
        })
    }
}

/// No value of this type exists: this program was built without the client of etcd.
#[cfg(not(feature = "etcd"))]
pub(super) enum Etcd {}

#[cfg(not(feature = "etcd"))]
impl Etcd {
    /// Refuses a configuration that names etcd.
    pub(super) fn configured(config: &Config) -> Result<Option<Self>, String> {
        if config.lock.etcd_endpoints.is_empty() {
            return Ok(None);
        }
        Err("lock.etcd_endpoints is set, and this program was built without the client of etcd: build it with --features etcd".to_owned())
    }

    /// Never called: there is no value.
    pub(super) fn locks(
        &self,
        _: &str,
        _: &TaskTracker,
    ) -> Result<Arc<dyn leaselock::Mutex>, String> {
        match *self {}
    }

    /// Never called: there is no value.
    pub(super) fn probe(&self) -> Probe {
        match *self {}
    }
}
