//! Where processes of every kind meet: the one place that knows how each kind on the list is made.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    Capabilities, CountdownLatch, KINDS, LeasedMutex, LockName, MultiMutex, Primitive, ReadWrite,
    SharedCounter, etcd, local, mysql, redis as redis_locks, zookeeper,
};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use tokio_util::task::TaskTracker;

use super::connect;
use crate::support::Shop;

/// Where the processes of one test meet: servers for all kinds, and names that nobody else uses.
pub struct Ground {
    pub prefix: String,
    names: local::Names,
    several: local::Names,
    /// The test's own ZooKeeper; none is that of the run.
    zookeeper: Option<String>,
    shop: Arc<Shop>,
}

impl Ground {
    pub async fn new() -> Self {
        let prefix = format!("{}:", crate::support::unique("kinds"));
        Self::at(prefix, Arc::new(Shop::new().await))
    }

    /// The same ground, for somebody who outlives this value or dies before it.
    pub fn again(&self) -> Self {
        let (names, several) = (self.names.clone(), self.several.clone());
        let (prefix, zookeeper) = (self.prefix.clone(), self.zookeeper.clone());
        Self { prefix, names, several, zookeeper, shop: Arc::clone(&self.shop) }
    }

    /// The same ground with another ZooKeeper.
    pub fn with_zookeeper(&self, hosts: String) -> Self {
        Self { zookeeper: Some(hosts), ..self.again() }
    }

    /// The same servers with names that nobody has used yet.
    pub fn elsewhere(&self) -> Self {
        let prefix = format!("{}:", crate::support::unique("kinds"));
        Self::at(prefix, Arc::clone(&self.shop))
    }

    fn at(prefix: String, shop: Arc<Shop>) -> Self {
        let (names, several) = (local::Names::default(), local::Names::default());
        Self { prefix, names, several, zookeeper: None, shop }
    }

    /// One more process's sessions with ZooKeeper.
    pub async fn ensemble(&self) -> Arc<zookeeper::Ensemble> {
        let hosts = match &self.zookeeper {
            Some(hosts) => hosts.clone(),
            None => crate::support::zookeeper_hosts().await,
        };
        zookeeper::Ensemble::new(&hosts, &self.prefix).expect("a prefix")
    }

    /// One more process with a lock of this kind.
    pub async fn process(&self, kind: &Capabilities) -> LeasedMutex {
        self.process_behind(kind, &crate::support::redis_url().await).await
    }

    /// The same, whose Redis is at `url`.
    pub async fn process_behind(&self, kind: &Capabilities, url: &str) -> LeasedMutex {
        self.process_told_at(kind, url, url).await
    }

    /// The same, that hears its wake-ups at another address.
    pub async fn process_told_at(
        &self,
        kind: &Capabilities,
        url: &str,
        told_url: &str,
    ) -> LeasedMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let etcd = etcd::Client::new(&crate::support::etcd_url().await).expect("an address");
        let redis = connect(url).await;
        let client = redis::Client::open(told_url).expect("a Redis URL");
        let told = &Subscriber::start(client, prefix, tasks).expect("a prefix");
        let made = match (kind.backend, kind.kind) {
            ("local", "token") => Ok(local::mutex(&self.names, tasks)),
            ("mysql", "table") => Ok(mysql::table::mutex(self.shop.pool.clone(), tasks)),
            ("mysql", "named") => {
                let options = self.shop.pool.connect_options();
                let idle_min = mysql::named::SESSION_IDLE_MIN;
                Ok(mysql::named::mutex((*options).clone(), prefix, idle_min, tasks))
            }
            ("etcd", "mutex") => etcd::mutex::mutex(etcd, prefix, tasks),
            // Used as if it were a mutex: nobody else may hold what a writer holds.
            ("etcd", "read-write") => {
                etcd::read_write::lock(&etcd, prefix, tasks).map(|lock| lock.write)
            }
            ("etcd", "semaphore") => etcd::semaphore::semaphore(etcd, prefix, 1, tasks),
            ("redis", "token") => redis_locks::token::notified(redis, told, prefix, tasks),
            ("redis", "reentrant") => redis_locks::reentrant::mutex(redis, told, prefix, tasks),
            ("redis", "fair") => redis_locks::fair::mutex(redis, told, prefix, tasks),
            ("redis", "plain") => redis_locks::plain::mutex(redis, prefix, tasks),
            ("redis", "spin") => redis_locks::spin::mutex(redis, prefix, tasks),
            ("redis", "redlock") => {
                let servers = crate::support::independent_redis().await;
                let connections = servers.iter().map(|server| lazily(&server.url())).collect();
                let made = redis_locks::redlock::mutex(connections, prefix, tasks);
                Ok(made.expect("five servers and a prefix"))
            }
            ("redis", "setnx") => leaselock::demo::setnx::mutex(redis, prefix, tasks),
            ("redis", "setnx-expire") => {
                let repair = leaselock::demo::setnx_expire::Repair::ByWaiters;
                leaselock::demo::setnx_expire::mutex(redis, prefix, repair, tasks)
            }
            ("redis", "getset") => {
                leaselock::demo::getset::mutex(redis, prefix, Arc::new(now_ms), tasks)
            }
            ("zookeeper", "sequential") => {
                Ok(zookeeper::sequential::mutex(&self.ensemble().await, tasks))
            }
            ("zookeeper", "reentrant") => {
                Ok(zookeeper::reentrant::mutex(&self.ensemble().await, tasks))
            }
            // Used as if they were mutexes: nobody else may hold what a writer, the only permit or
            // the same set of names holds.
            ("zookeeper", "read-write") => {
                Ok(zookeeper::read_write::read_write(&self.ensemble().await, tasks).write)
            }
            ("zookeeper", "semaphore") => {
                Ok(zookeeper::semaphore::mutex(&self.ensemble().await, 1, tasks))
            }
            ("zookeeper", "multi") => {
                Ok(zookeeper::multi::mutex(&self.ensemble().await, tasks).mutex().clone())
            }
            ("zookeeper", "spin") => Ok(zookeeper::spin::mutex(&self.ensemble().await, tasks)),
            // Likewise, with keys and fences of their own beside those of `token`.
            ("redis", "read-write") => {
                redis_locks::read_write::read_write(&redis, told, prefix, tasks)
                    .map(|lock| lock.write)
            }
            ("redis", "semaphore") => redis_locks::semaphore::mutex(redis, told, prefix, 1, tasks),
            ("redis", "expiring-semaphore") => {
                redis_locks::expiring_semaphore::mutex(redis, told, prefix, 1, tasks)
            }
            ("redis", "multi") => {
                redis_locks::multi::mutex(redis, told, &format!("{prefix}several:"), tasks)
                    .map(|lock| lock.mutex().clone())
            }
            ("local", "multi") => Ok(local::multi(&self.several, tasks).mutex().clone()),
            other => unknown(other),
        };
        made.expect("a prefix")
    }

    /// Where one more process is told of changes on Redis.
    pub async fn told(&self) -> Subscriber {
        let client = redis::Client::open(crate::support::redis_url().await);
        let client = client.expect("a Redis URL");
        Subscriber::start(client, &self.prefix, &TaskTracker::new()).expect("a prefix")
    }

    /// One more process with a read/write lock of this kind.
    pub async fn read_write(&self, kind: &Capabilities) -> ReadWrite {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let redis = connect(&crate::support::redis_url().await).await;
        let told = &self.told().await;
        let etcd = etcd::Client::new(&crate::support::etcd_url().await).expect("an address");
        match (kind.backend, kind.kind) {
            ("redis", "read-write") => {
                redis_locks::read_write::read_write(&redis, told, prefix, tasks).expect("a prefix")
            }
            ("etcd", "read-write") => {
                etcd::read_write::lock(&etcd, prefix, tasks).expect("a prefix")
            }
            ("zookeeper", "read-write") => {
                zookeeper::read_write::read_write(&self.ensemble().await, tasks)
            }
            other => unknown(other),
        }
    }

    /// One more process with a semaphore of this kind.
    pub async fn semaphore(&self, kind: &Capabilities, permits_max: u32) -> LeasedMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let redis = connect(&crate::support::redis_url().await).await;
        let told = &self.told().await;
        let made = match (kind.backend, kind.kind) {
            ("redis", "semaphore") => {
                redis_locks::semaphore::mutex(redis, told, prefix, permits_max, tasks)
            }
            ("redis", "expiring-semaphore") => {
                redis_locks::expiring_semaphore::mutex(redis, told, prefix, permits_max, tasks)
            }
            ("etcd", "semaphore") => {
                let etcd = etcd::Client::new(&crate::support::etcd_url().await);
                let etcd = etcd.expect("an address");
                etcd::semaphore::semaphore(etcd, prefix, permits_max, tasks)
            }
            ("zookeeper", "semaphore") => {
                Ok(zookeeper::semaphore::mutex(&self.ensemble().await, permits_max, tasks))
            }
            other => unknown(other),
        };
        made.expect("a prefix")
    }

    /// One more process with a multi-lock of this kind.
    pub async fn multi(&self, kind: &Capabilities) -> MultiMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        match (kind.backend, kind.kind) {
            ("redis", "multi") => {
                let redis = connect(&crate::support::redis_url().await).await;
                let told = &self.told().await;
                redis_locks::multi::mutex(redis, told, prefix, tasks).expect("a prefix")
            }
            ("local", "multi") => local::multi(&self.names, tasks),
            ("zookeeper", "multi") => zookeeper::multi::mutex(&self.ensemble().await, tasks),
            other => unknown(other),
        }
    }

    /// One more process with a countdown latch of this kind.
    pub async fn latch(&self, kind: &Capabilities) -> Box<dyn CountdownLatch> {
        let redis = connect(&crate::support::redis_url().await).await;
        match (kind.backend, kind.kind) {
            ("redis", "countdown-latch") => {
                let latch = redis_locks::countdown_latch::RedisLatch::new(
                    redis,
                    &self.told().await,
                    &self.prefix,
                );
                Box::new(latch.expect("a prefix"))
            }
            other => unknown(other),
        }
    }

    /// One more process with a shared counter of this kind.
    pub async fn counter(&self, kind: &Capabilities) -> Box<dyn SharedCounter> {
        let redis = connect(&crate::support::redis_url().await).await;
        match (kind.backend, kind.kind) {
            ("redis", "counter") => {
                let counter = redis_locks::counter::RedisCounter::new(redis, &self.prefix);
                Box::new(counter.expect("a prefix"))
            }
            ("zookeeper", "counter") => {
                Box::new(zookeeper::counter::counter(&self.ensemble().await))
            }
            other => unknown(other),
        }
    }

    /// The database that the MySQL kinds work in.
    pub fn pool(&self) -> &sqlx::MySqlPool {
        &self.shop.pool
    }

    /// Where a process of its own finds that database.
    pub fn database_url(&self) -> &str {
        self.shop.config.database_url.reveal()
    }

    /// The kinds that can be held and that `applies` to, each with two processes.
    pub async fn pairs(
        &self,
        applies: impl Fn(&Capabilities) -> bool,
    ) -> Vec<(&'static str, LeasedMutex, LeasedMutex)> {
        let mut pairs = Vec::new();
        for kind in KINDS.iter().filter(|kind| can_be_held(kind) && applies(kind)) {
            pairs.push((label(kind), self.process(kind).await, self.process(kind).await));
        }
        assert!(!pairs.is_empty(), "it applies to no kind at all");
        pairs
    }
}

fn unknown<T>(kind: (&str, &str)) -> T {
    panic!("{kind:?} is on the list, but this suite cannot make it")
}

/// Whether there are holders, and not only a number.
pub fn can_be_held(kind: &Capabilities) -> bool {
    !matches!(kind.primitive, Primitive::SharedCounter | Primitive::CountdownLatch)
}

/// The kinds on the list that can be used as this.
pub fn every(primitive: Primitive) -> impl Iterator<Item = &'static Capabilities> {
    KINDS.iter().copied().filter(move |kind| kind.primitive == primitive)
}

/// How failures call a kind.
pub fn label(kind: &Capabilities) -> &'static str {
    format!("{} on {}", kind.kind, kind.backend).leak()
}

/// A connection that is made when it is used, since its server may be down.
pub fn lazily(url: &str) -> ConnectionManager {
    let client = redis::Client::open(url).expect("a Redis URL");
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_min_delay(Duration::from_millis(5))
        .set_connection_timeout(Some(Duration::from_millis(500)));
    ConnectionManager::new_lazy_with_config(client, config).expect("a connection")
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the year 500 million")
}

pub fn name() -> LockName {
    LockName::new("{thing:1}:write").expect("a name")
}
