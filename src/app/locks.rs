//! Builds the locks of the service from its settings.

use std::fmt::Display;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::task::TaskTracker;

use super::shared::Shared;
use crate::config::Config;
use crate::readiness::Probe;
use gates::redis_store::{SharedConnection, connect_when_used};
use gates::{LockSources, ZookeeperLocks};
use leaselock::LeasedMutex;
use leaselock::redis::subscriber::Subscriber;
use shop_domain::outcome::Dependency;

/// Connections of the lock table to the database.
const LOCK_CONNECTIONS_MAX: u32 = 4;

/// Builds the sources of the lock strategies. A server is connected when its first lock is used.
pub(super) fn lock_sources(
    config: &Config,
    shared: &Shared,
    servers: &LockServers,
) -> Result<LockSources, String> {
    let redis = &shared.redis;
    let tasks = TaskTracker::new();
    let prefix = &config.redis.prefix;
    // On it all Redis locks are notified of a release.
    let subscriber = Subscriber::start(redis.shared(), prefix, &TaskTracker::new());
    let subscriber = subscriber.map_err(unusable_prefix)?;
    let token = leaselock::redis::token::notified(redis.shared(), &subscriber, prefix, &tasks);
    let token = token.map_err(unusable_prefix)?;
    let clock = shared.clock.clone();
    let now_ms = Arc::new(move || {
        u64::try_from(clock.now().unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
    });
    let redlock = servers.redlock.as_ref().map(|server| (server.locks)(&tasks)).transpose()?;
    Ok(LockSources {
        token,
        redis: redis.shared(),
        subscriber,
        prefix: prefix.as_str().into(),
        mysql: mysql_connection::pool_to(&shared.writer, config, LOCK_CONNECTIONS_MAX),
        redlock: redlock.unwrap_or_default(),
        etcd: servers.etcd.as_ref().map(|server| (server.locks)(&tasks)).transpose()?,
        zookeeper: servers.zookeeper.as_ref().map(|server| (server.locks)(&tasks)).transpose()?,
        now_ms,
        tasks,
    })
}

fn unusable_prefix(error: impl Display) -> String {
    format!("redis.prefix cannot be used: {error}")
}

/// The lock servers besides Redis and MySQL, where they are configured. They are connected when they are first used.
pub(super) struct LockServers {
    redlock: Option<LockServer<Vec<SharedConnection>>>,
    etcd: Option<LockServer<LeasedMutex>>,
    zookeeper: Option<LockServer<ZookeeperLocks>>,
}

/// Makes the locks of a server, whose tasks run on the tracker.
type MakeLocks<L> = Box<dyn Fn(&TaskTracker) -> Result<L, String> + Send + Sync>;

/// A configured server, or several that are one for their lock.
struct LockServer<L> {
    locks: MakeLocks<L>,
    /// Asks whether it answers.
    probe: Probe,
}

impl LockServers {
    /// Makes the clients that the settings name.
    ///
    /// # Errors
    /// When a setting cannot be used, or when this program was built without the client.
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        Ok(Self { redlock: redlock(config)?, etcd: etcd(config)?, zookeeper: zookeeper(config)? })
    }

    /// A readiness probe for each configured server.
    pub(super) fn probes(self) -> Vec<(Dependency, Probe)> {
        let redlock = self.redlock.map(|server| (Dependency::Redlock, server.probe));
        let etcd = self.etcd.map(|server| (Dependency::Etcd, server.probe));
        let zookeeper = self.zookeeper.map(|server| (Dependency::Zookeeper, server.probe));
        [redlock, etcd, zookeeper].into_iter().flatten().collect()
    }
}

fn redlock(config: &Config) -> Result<Option<LockServer<Vec<SharedConnection>>>, String> {
    let urls = config.lock.redlock_urls.reveal();
    let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
    let servers: Result<Vec<_>, _> = urls.map(|url| connect_when_used(url, config)).collect();
    let servers = servers.map_err(|error| format!("lock.redlock_urls cannot be used: {error}"))?;
    if servers.is_empty() {
        return Ok(None);
    }
    let asked = servers.clone();
    Ok(Some(LockServer {
        locks: Box::new(move |_: &TaskTracker| Ok(servers.clone())),
        probe: Box::new(move || majority_answers(asked.clone()).boxed()),
    }))
}

async fn majority_answers(mut servers: Vec<SharedConnection>) -> Result<(), String> {
    let all = servers.len();
    let mut script = redis::cmd("EVAL");
    script.arg("return 1").arg(0);
    let asked = servers.iter_mut().map(async |server| script.exec_async(server).await.is_ok());
    let answers = join_all(asked).await.into_iter().filter(|answered| *answered).count();
    if answers > all / 2 { Ok(()) } else { Err(format!("{answers} of {all} run a Lua script")) }
}

#[cfg(feature = "etcd")]
fn etcd(config: &Config) -> Result<Option<LockServer<LeasedMutex>>, String> {
    let endpoints = &config.lock.etcd_endpoints;
    if endpoints.is_empty() {
        return Ok(None);
    }
    let client = leaselock::etcd::Client::new(endpoints);
    let client = client.map_err(|error| format!("lock.etcd_endpoints cannot be used: {error}"))?;
    let asked = client.clone();
    let prefix = config.redis.prefix.clone();
    Ok(Some(LockServer {
        locks: Box::new(move |tasks: &TaskTracker| {
            let mutex = leaselock::etcd::mutex::mutex(client.clone(), &prefix, tasks);
            mutex.map_err(unusable_prefix)
        }),
        probe: Box::new(move || {
            let client = asked.clone();
            async move { client.ping().await }.boxed()
        }),
    }))
}

#[cfg(not(feature = "etcd"))]
fn etcd(config: &Config) -> Result<Option<LockServer<LeasedMutex>>, String> {
    without_client("etcd", "lock.etcd_endpoints", &config.lock.etcd_endpoints)
}

#[cfg(feature = "zookeeper")]
fn zookeeper(config: &Config) -> Result<Option<LockServer<ZookeeperLocks>>, String> {
    use leaselock::zookeeper::{Ensemble, sequential, spin};
    let hosts = &*config.lock.zookeeper_hosts;
    if hosts.is_empty() {
        return Ok(None);
    }
    let ensemble = Ensemble::new(hosts, &config.redis.prefix).map_err(unusable_prefix)?;
    let asked = Arc::clone(&ensemble);
    let lease = std::time::Duration::from_millis(config.lock.lease_ms);
    Ok(Some(LockServer {
        locks: Box::new(move |tasks: &TaskTracker| {
            Ok(ZookeeperLocks {
                sequential: sequential::mutex(&ensemble, tasks),
                spin: spin::mutex(&ensemble, tasks),
            })
        }),
        probe: Box::new(move || {
            let ensemble = Arc::clone(&asked);
            async move { ensemble.ping(lease).await }.boxed()
        }),
    }))
}

#[cfg(not(feature = "zookeeper"))]
fn zookeeper(config: &Config) -> Result<Option<LockServer<ZookeeperLocks>>, String> {
    without_client("ZooKeeper", "lock.zookeeper_hosts", &config.lock.zookeeper_hosts)
}

/// Refuses a setting with servers whose client this program was built without.
#[cfg(not(all(feature = "etcd", feature = "zookeeper")))]
fn without_client<L>(client: &str, setting: &str, servers: &str) -> Result<Option<L>, String> {
    if servers.is_empty() {
        return Ok(None);
    }
    let feature = client.to_ascii_lowercase();
    Err(format!(
        "{setting} is set, and this program was built without the client of {client}: build it with --features {feature}"
    ))
}
