//! The locks that the service uses, made from its settings.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::domain::Clock;
use crate::domain::outcome::Dependency;
use crate::http::SignOfLife;
use crate::lock;
use crate::lock::redis::subscriber::Subscriber;
use crate::store::mysql;
use crate::store::redis::{RedisClient, SharedConnection, connect_when_used};
use crate::strategy::Locks;

/// Connections of the lock table to the database.
const LOCK_CONNECTIONS_MAX: u32 = 4;

/// The connection on which all locks on Redis are told that it is their turn.
pub(super) fn lock_subscriber(config: &Config, redis: &RedisClient) -> Result<Subscriber, String> {
    Subscriber::start(redis.client().clone(), &config.redis.prefix, &TaskTracker::new())
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))
}

/// The main lock.
pub(super) fn lock_redis(
    config: &Config,
    redis: &RedisClient,
    subscriber: &Subscriber,
) -> Result<Arc<dyn lock::Mutex>, String> {
    let prefix = &config.redis.prefix;
    // Its tasks give back what was dropped; they end with the last guard, not with the service.
    let tasks = TaskTracker::new();
    let mutex = lock::redis::token::notified(redis.shared(), subscriber, prefix, &tasks)
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))?;
    Ok(Arc::new(mutex))
}

/// Every other kind of lock. Nothing connects before one of them is used.
pub(super) fn locks(
    config: &Config,
    redis: &RedisClient,
    subscriber: &Subscriber,
    servers: &LockServers,
    clock: &Clock,
) -> Result<Locks, String> {
    use lock::demo::{getset, setnx, setnx_expire};
    use lock::redis::{fair, plain, reentrant};
    let (tasks, prefix) = (TaskTracker::new(), &*config.redis.prefix);
    let shared = || redis.shared();
    let unusable = |error| format!("redis.prefix cannot be used: {error}");
    // Apart from the ledger's: a renewal must not wait behind writes that wait for the lock.
    let pool = mysql::pool_of(config, LOCK_CONNECTIONS_MAX)?;
    let session = (*pool.connect_options()).clone();
    let namespace = session.get_database().unwrap_or_default().to_owned();
    let clock = clock.clone();
    let now_ms = Arc::new(move || {
        u64::try_from(clock.now().unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
    });
    let repair = setnx_expire::Repair::ByWaiters;
    let zookeeper = servers.zookeeper.as_ref();
    let etcd = servers.etcd.clone().map(|client| lock_etcd(config, client, &tasks)).transpose()?;
    Ok(Locks {
        reentrant: Arc::new(
            reentrant::mutex(shared(), subscriber, prefix, &tasks).map_err(unusable)?,
        ),
        fair: Arc::new(fair::mutex(shared(), subscriber, prefix, &tasks).map_err(unusable)?),
        plain: Arc::new(plain::mutex(shared(), prefix, &tasks).map_err(unusable)?),
        setnx_expire: Arc::new(
            setnx_expire::mutex(shared(), prefix, repair, &tasks).map_err(unusable)?,
        ),
        setnx: Arc::new(setnx::mutex(shared(), prefix, &tasks).map_err(unusable)?),
        getset: Arc::new(getset::mutex(shared(), prefix, now_ms, &tasks).map_err(unusable)?),
        table: Arc::new(lock::mysql::table::mutex(pool, &tasks)),
        named: Arc::new(lock::mysql::named::mutex(
            session,
            &namespace,
            lock::mysql::named::SESSION_IDLE_MIN,
            &tasks,
        )),
        redlock: redlock(config, &servers.redlock)?,
        etcd,
        local: Arc::new(lock::local::mutex(&lock::local::Names::default(), &tasks)),
        zookeeper: zookeeper
            .map(|ensemble| Arc::new(lock::zookeeper::sequential::mutex(ensemble, &tasks)) as _),
        zookeeper_spin: zookeeper
            .map(|ensemble| Arc::new(lock::zookeeper::spin::mutex(ensemble, &tasks)) as _),
    })
}

/// Where the locks of the other servers come from, where these are configured. Nothing connects
/// before it is used.
pub(super) struct LockServers {
    redlock: Vec<SharedConnection>,
    etcd: Option<lock::etcd::Client>,
    zookeeper: Option<Arc<lock::zookeeper::Ensemble>>,
    lease: Duration,
}

impl LockServers {
    /// Those of the settings.
    pub(super) fn new(config: &Config) -> Result<Self, String> {
        let lease = Duration::from_millis(config.lock.lease_ms);
        let (redlock, etcd) = (redlock_connections(config)?, etcd_client(config)?);
        Ok(Self { redlock, etcd, zookeeper: zookeeper(config)?, lease })
    }

    /// How to ask each of them for a sign of life.
    pub(super) fn signs_of_life(&self) -> Vec<(Dependency, SignOfLife)> {
        let mut signs: Vec<(Dependency, SignOfLife)> = Vec::new();
        let redlock = self.redlock.clone();
        if !redlock.is_empty() {
            let look = move || majority_answers(redlock.clone()).boxed();
            signs.push((Dependency::Redlock, Box::new(look)));
        }
        if let Some(etcd) = self.etcd.clone() {
            let look = move || {
                let etcd = etcd.clone();
                async move { etcd.ping().await }.boxed()
            };
            signs.push((Dependency::Etcd, Box::new(look)));
        }
        if let Some(ensemble) = self.zookeeper.clone() {
            let lease = self.lease;
            let look = move || {
                let ensemble = Arc::clone(&ensemble);
                async move { ensemble.ping(lease).await }.boxed()
            };
            signs.push((Dependency::Zookeeper, Box::new(look)));
        }
        signs
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

/// The lock on a majority of servers, if they are configured.
fn redlock(
    config: &Config,
    connections: &[SharedConnection],
) -> Result<Option<Arc<dyn lock::Mutex>>, String> {
    if connections.is_empty() {
        return Ok(None);
    }
    let prefix = &config.redis.prefix;
    let mutex = lock::redis::redlock::mutex(connections.to_vec(), prefix, &TaskTracker::new())
        .map_err(|error| format!("lock.redlock_urls cannot be used: {error}"))?;
    Ok(Some(Arc::new(mutex)))
}

fn etcd_client(config: &Config) -> Result<Option<lock::etcd::Client>, String> {
    let endpoints = &config.lock.etcd_endpoints;
    if endpoints.is_empty() {
        return Ok(None);
    }
    let client = lock::etcd::Client::new(endpoints);
    client.map(Some).map_err(|error| format!("lock.etcd_endpoints cannot be used: {error}"))
}

/// The lock on etcd.
fn lock_etcd(
    config: &Config,
    client: lock::etcd::Client,
    tasks: &TaskTracker,
) -> Result<Arc<dyn lock::Mutex>, String> {
    let mutex = lock::etcd::mutex::mutex(client, &config.redis.prefix, tasks)
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))?;
    Ok(Arc::new(mutex))
}

/// The sessions with ZooKeeper, where it is configured.
fn zookeeper(config: &Config) -> Result<Option<Arc<lock::zookeeper::Ensemble>>, String> {
    let hosts = &*config.lock.zookeeper_hosts;
    if hosts.is_empty() {
        return Ok(None);
    }
    let ensemble = lock::zookeeper::Ensemble::new(hosts, &config.redis.prefix);
    ensemble.map(Some).map_err(|error| format!("redis.prefix cannot be used: {error}"))
}
