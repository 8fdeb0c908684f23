//! Builds the locks of the service from its settings.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::task::TaskTracker;

use super::shared::Shared;
use crate::config::Config;
use crate::domain::outcome::Dependency;
use crate::readiness::Probe;
use crate::store::mysql;
use crate::store::redis::{RedisClient, SharedConnection, connect_when_used};
use crate::strategy::LockSources;
use leaselock::redis::subscriber::Subscriber;

/// Connections of the lock table to the database.
const LOCK_CONNECTIONS_MAX: u32 = 4;

/// The subscription on which all Redis locks are notified of a release.
fn lock_subscriber(config: &Config, redis: &RedisClient) -> Result<Subscriber, String> {
    Subscriber::start(redis.shared(), &config.redis.prefix, &TaskTracker::new())
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))
}

/// Builds the sources of the lock strategies. A server is connected when its first lock is used.
pub(super) fn lock_sources(
    config: &Config,
    shared: &Shared,
    servers: &LockServers,
) -> Result<LockSources, String> {
    let redis = &shared.redis;
    let subscriber = lock_subscriber(config, redis)?;
    let (tasks, prefix) = (TaskTracker::new(), &config.redis.prefix);
    let token = leaselock::redis::token::notified(redis.shared(), &subscriber, prefix, &tasks)
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))?;
    let clock = shared.clock.clone();
    let now_ms = Arc::new(move || {
        u64::try_from(clock.now().unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
    });
    Ok(LockSources {
        token: Arc::new(token),
        redis: redis.shared(),
        subscriber,
        prefix: prefix.as_str().into(),
        mysql: mysql::pool_to(&shared.writer, config, LOCK_CONNECTIONS_MAX),
        redlock: servers.redlock.clone(),
        etcd: servers.etcd.clone(),
        zookeeper: servers.zookeeper.clone(),
        now_ms,
        tasks,
    })
}

/// The clients of the lock servers besides Redis and MySQL, where they are configured. They connect
/// when they are first used.
pub(super) struct LockServers {
    redlock: Vec<SharedConnection>,
    etcd: Option<leaselock::etcd::Client>,
    zookeeper: Option<Arc<leaselock::zookeeper::Ensemble>>,
    lease: Duration,
}

impl LockServers {
    /// Makes the clients that the settings name.
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        let lease = Duration::from_millis(config.lock.lease_ms);
        let (redlock, etcd) = (redlock_connections(config)?, etcd_client(config)?);
        Ok(Self { redlock, etcd, zookeeper: zookeeper(config)?, lease })
    }

    /// A readiness probe for each configured server.
    pub(super) fn probes(&self) -> Vec<(Dependency, Probe)> {
        let mut probes: Vec<(Dependency, Probe)> = Vec::new();
        let redlock = self.redlock.clone();
        if !redlock.is_empty() {
            let probe = move || majority_answers(redlock.clone()).boxed();
            probes.push((Dependency::Redlock, Box::new(probe)));
        }
        if let Some(etcd) = self.etcd.clone() {
            let probe = move || {
                let etcd = etcd.clone();
                async move { etcd.ping().await }.boxed()
            };
            probes.push((Dependency::Etcd, Box::new(probe)));
        }
        if let Some(ensemble) = self.zookeeper.clone() {
            let lease = self.lease;
            let probe = move || {
                let ensemble = Arc::clone(&ensemble);
                async move { ensemble.ping(lease).await }.boxed()
            };
            probes.push((Dependency::Zookeeper, Box::new(probe)));
        }
        probes
    }
}

async fn majority_answers(mut servers: Vec<SharedConnection>) -> Result<(), String> {
    let all = servers.len();
    let pings =
        servers.iter_mut().map(async |server| redis::cmd("PING").exec_async(server).await.is_ok());
    let answers = join_all(pings).await.into_iter().filter(|answered| *answered).count();
    if answers > all / 2 { Ok(()) } else { Err(format!("{answers} of {all} answer")) }
}

fn redlock_connections(config: &Config) -> Result<Vec<SharedConnection>, String> {
    let urls = config.lock.redlock_urls.reveal();
    let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
    let connections: Result<_, _> = urls.map(|url| connect_when_used(url, config)).collect();
    connections.map_err(|error| format!("lock.redlock_urls cannot be used: {error}"))
}

fn etcd_client(config: &Config) -> Result<Option<leaselock::etcd::Client>, String> {
    let endpoints = &config.lock.etcd_endpoints;
    if endpoints.is_empty() {
        return Ok(None);
    }
    let client = leaselock::etcd::Client::new(endpoints);
    client.map(Some).map_err(|error| format!("lock.etcd_endpoints cannot be used: {error}"))
}

/// The client of ZooKeeper, if it is configured.
fn zookeeper(config: &Config) -> Result<Option<Arc<leaselock::zookeeper::Ensemble>>, String> {
    let hosts = &*config.lock.zookeeper_hosts;
    if hosts.is_empty() {
        return Ok(None);
    }
    let ensemble = leaselock::zookeeper::Ensemble::new(hosts, &config.redis.prefix);
    ensemble.map(Some).map_err(|error| format!("redis.prefix cannot be used: {error}"))
}
