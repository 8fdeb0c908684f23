//! The locks that the service uses, made from its settings.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::domain::Clock;
use crate::lock;
use crate::lock::redis::subscriber::Subscriber;
use crate::store::mysql;
use crate::store::redis::{RedisClient, connect_when_used};
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
    clock: &Clock,
) -> Result<Locks, String> {
    use lock::redis::{fair, getset, reentrant, setnx, setnx_expire};
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
    let zookeeper = zookeeper(config)?;
    let zookeeper = zookeeper.as_ref();
    Ok(Locks {
        reentrant: Arc::new(
            reentrant::notified(shared(), subscriber, prefix, &tasks).map_err(unusable)?,
        ),
        fair: Arc::new(fair::notified(shared(), subscriber, prefix, &tasks).map_err(unusable)?),
        setnx_expire: Arc::new(
            setnx_expire::mutex(shared(), prefix, repair, &tasks).map_err(unusable)?,
        ),
        setnx: Arc::new(setnx::mutex(shared(), prefix, &tasks).map_err(unusable)?),
        getset: Arc::new(getset::mutex(shared(), prefix, now_ms, &tasks).map_err(unusable)?),
        table: Arc::new(lock::mysql::table::mutex(pool, &tasks)),
        named: Arc::new(lock::mysql::named::mutex(session, &namespace, &tasks)),
        redlock: redlock(config)?,
        etcd: lock_etcd(config, &tasks)?,
        local: Arc::new(lock::local::mutex(&lock::local::Names::default(), &tasks)),
        zookeeper: zookeeper
            .map(|ensemble| Arc::new(lock::zookeeper::sequential::mutex(ensemble, &tasks)) as _),
        zookeeper_spin: zookeeper
            .map(|ensemble| Arc::new(lock::zookeeper::spin::mutex(ensemble, &tasks)) as _),
    })
}

/// The lock on a majority of servers, if they are configured.
fn redlock(config: &Config) -> Result<Option<Arc<dyn lock::Mutex>>, String> {
    let urls = config.lock.redlock_urls.reveal();
    let urls: Vec<&str> = urls.split(',').map(str::trim).filter(|url| !url.is_empty()).collect();
    if urls.is_empty() {
        return Ok(None);
    }
    let unusable = |why: &dyn std::fmt::Display| format!("lock.redlock_urls cannot be used: {why}");
    let connections: Result<Vec<_>, _> =
        urls.iter().map(|url| connect_when_used(url, config)).collect();
    let connections = connections.map_err(|error| unusable(&error))?;
    let prefix = &config.redis.prefix;
    let mutex = lock::redis::redlock::mutex(connections, prefix, &TaskTracker::new())
        .map_err(|error| unusable(&error))?;
    Ok(Some(Arc::new(mutex)))
}

/// The lock on etcd, if there is one. Connects when first used.
fn lock_etcd(config: &Config, tasks: &TaskTracker) -> Result<Option<Arc<dyn lock::Mutex>>, String> {
    use lock::etcd::{Client, mutex};
    let (endpoints, prefix) = (&config.lock.etcd_endpoints, &*config.redis.prefix);
    if endpoints.is_empty() {
        return Ok(None);
    }
    let client = Client::new(endpoints)
        .map_err(|error| format!("lock.etcd_endpoints cannot be used: {error}"))?;
    let mutex = mutex::mutex(client, prefix, tasks)
        .map_err(|error| format!("redis.prefix cannot be used: {error}"))?;
    Ok(Some(Arc::new(mutex)))
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
