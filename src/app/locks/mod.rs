//! Builds the locks of the service from its settings.

mod etcd;
mod zookeeper;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::task::TaskTracker;

use etcd::Etcd;
use zookeeper::Zookeeper;

use super::shared::Shared;
use crate::config::Config;
use crate::readiness::Probe;
use gates::LockSources;
use gates::redis_store::{RedisClient, SharedConnection, connect_when_used};
use leaselock::redis::subscriber::Subscriber;
use ledger::rows;
use shop_domain::outcome::Dependency;

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
    let tasks = TaskTracker::new();
    let prefix = &config.redis.prefix;
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
        mysql: rows::pool_to(&shared.writer, config, LOCK_CONNECTIONS_MAX),
        redlock: servers.redlock.clone(),
        etcd: servers.etcd.as_ref().map(|etcd| etcd.locks(prefix, &tasks)).transpose()?,
        zookeeper: servers.zookeeper.as_ref().map(|zookeeper| zookeeper.locks(&tasks)),
        now_ms,
        tasks,
    })
}

/// The clients of the lock servers besides Redis and MySQL, where they are configured. They connect
/// when they are first used.
pub(super) struct LockServers {
    redlock: Vec<SharedConnection>,
    etcd: Option<Etcd>,
    zookeeper: Option<Zookeeper>,
}

impl LockServers {
    /// Makes the clients that the settings name.
    ///
    /// # Errors
    /// When a setting cannot be used, or when this program was built without the client.
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        Ok(Self {
            redlock: redlock_connections(config)?,
            etcd: Etcd::configured(config)?,
            zookeeper: Zookeeper::configured(config)?,
        })
    }

    /// A readiness probe for each configured server.
    pub(super) fn probes(&self) -> Vec<(Dependency, Probe)> {
        let mut probes: Vec<(Dependency, Probe)> = Vec::new();
        let redlock = self.redlock.clone();
        if !redlock.is_empty() {
            let probe = move || majority_answers(redlock.clone()).boxed();
            probes.push((Dependency::Redlock, Box::new(probe)));
        }
        probes.extend(self.etcd.as_ref().map(|etcd| (Dependency::Etcd, etcd.probe())));
        let zookeeper = self.zookeeper.as_ref();
        probes.extend(zookeeper.map(|server| (Dependency::Zookeeper, server.probe())));
        probes
    }
}

async fn majority_answers(mut servers: Vec<SharedConnection>) -> Result<(), String> {
    let all = servers.len();
    let mut script = redis::cmd("EVAL");
    script.arg("return 1").arg(0);
    let asked = servers.iter_mut().map(async |server| script.exec_async(server).await.is_ok());
    let answers = join_all(asked).await.into_iter().filter(|answered| *answered).count();
    if answers > all / 2 { Ok(()) } else { Err(format!("{answers} of {all} run a Lua script")) }
}

fn redlock_connections(config: &Config) -> Result<Vec<SharedConnection>, String> {
    let urls = config.lock.redlock_urls.reveal();
    let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
    let connections: Result<_, _> = urls.map(|url| connect_when_used(url, config)).collect();
    connections.map_err(|error| format!("lock.redlock_urls cannot be used: {error}"))
}
