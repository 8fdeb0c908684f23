//! The testbed: the one place that knows how a lock of each kind on the list is made.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leaselock::demo::setnx_expire::Repair;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    AcquireError, Capabilities, CountdownLatch, Guard, KINDS, LeasedMutex, LockName, MultiMutex,
    Mutex, Primitive, ReadWrite, ReleaseOutcome, SharedCounter, demo, etcd, local, mysql,
    redis as redis_locks, zookeeper,
};
use redis_connection::{Options, SharedConnection};
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{LONG_LEASE, at_once, connect, shared, waiting};
use crate::support::{Database, etcd_url, independent_redis, redis_url, unique, zookeeper_hosts};

/// Makes the processes of one test, each with its own lock on the test's own names. Servers are
/// started when a kind first needs them.
pub struct Testbed {
    pub prefix: String,
    names: local::Names,
    several: local::Names,
    /// The test's own Redis and ZooKeeper; none is that of the run.
    redis: Option<String>,
    zookeeper: Option<String>,
    database: Arc<OnceCell<Database>>,
}

impl Testbed {
    pub fn new() -> Self {
        Self::at(Arc::default())
    }

    /// A second value with equal names and servers, for a task that outlives this one.
    pub fn again(&self) -> Self {
        Self {
            prefix: self.prefix.clone(),
            names: self.names.clone(),
            several: self.several.clone(),
            redis: self.redis.clone(),
            zookeeper: self.zookeeper.clone(),
            database: Arc::clone(&self.database),
        }
    }

    /// A testbed with equal names and another Redis.
    pub fn with_redis(&self, url: String) -> Self {
        Self { redis: Some(url), ..self.again() }
    }

    /// A testbed with equal names and another ZooKeeper.
    pub fn with_zookeeper(&self, hosts: String) -> Self {
        Self { zookeeper: Some(hosts), ..self.again() }
    }

    /// A testbed on this database with unused names.
    pub fn elsewhere(&self) -> Self {
        Self::at(Arc::clone(&self.database))
    }

    fn at(database: Arc<OnceCell<Database>>) -> Self {
        let (names, several) = (local::Names::default(), local::Names::default());
        let prefix = format!("{}:", unique("kinds"));
        Self { prefix, names, several, redis: None, zookeeper: None, database }
    }

    async fn redis_url(&self) -> String {
        match &self.redis {
            Some(url) => url.clone(),
            None => redis_url().await,
        }
    }

    /// One more process's sessions with ZooKeeper.
    pub async fn ensemble(&self) -> Arc<zookeeper::Ensemble> {
        let hosts = match &self.zookeeper {
            Some(hosts) => hosts.clone(),
            None => zookeeper_hosts().await,
        };
        zookeeper::Ensemble::new(&hosts, &self.prefix).expect("a prefix")
    }

    /// One more process with a lock of this kind.
    pub async fn process(&self, kind: &Capabilities) -> LeasedMutex {
        match kind.backend {
            "redis" => self.process_behind(kind, &self.redis_url().await).await,
            "mysql" => self.mysql(kind).await,
            "etcd" => self.etcd(kind).await,
            "zookeeper" => self.zookeeper(kind).await,
            _ => self.local(kind),
        }
    }

    fn local(&self, kind: &Capabilities) -> LeasedMutex {
        let tasks = &TaskTracker::new();
        match kind.kind {
            "token" => local::mutex(&self.names, tasks),
            "multi" => local::multi(&self.several, tasks).mutex().clone(),
            _ => unknown(kind),
        }
    }

    async fn mysql(&self, kind: &Capabilities) -> LeasedMutex {
        let (pool, tasks) = (self.pool().await.clone(), &TaskTracker::new());
        match kind.kind {
            "table" => mysql::table::mutex(pool, tasks),
            "named" => {
                let options = move || pool.connect_options();
                let idle_min = mysql::named::SESSION_IDLE_MIN;
                mysql::named::mutex(options, &self.prefix, idle_min, tasks)
            }
            _ => unknown(kind),
        }
    }

    /// A writer and an only permit are used as if they were mutexes: nobody else may hold meanwhile.
    async fn etcd(&self, kind: &Capabilities) -> LeasedMutex {
        let client = etcd::Client::new(&etcd_url().await).expect("an address");
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let made = match kind.kind {
            "mutex" => etcd::mutex::mutex(client, prefix, tasks),
            "read-write" => etcd::read_write::lock(&client, prefix, tasks).map(|lock| lock.write),
            "semaphore" => etcd::semaphore::semaphore(client, prefix, 1, tasks),
            _ => unknown(kind),
        };
        made.expect("a prefix")
    }

    /// Likewise for a writer, an only permit and one set of names.
    async fn zookeeper(&self, kind: &Capabilities) -> LeasedMutex {
        let (ensemble, tasks) = (&self.ensemble().await, &TaskTracker::new());
        match kind.kind {
            "sequential" => zookeeper::sequential::mutex(ensemble, tasks),
            "spin" => zookeeper::spin::mutex(ensemble, tasks),
            "reentrant" => zookeeper::reentrant::mutex(ensemble, tasks),
            "read-write" => zookeeper::read_write::read_write(ensemble, tasks).write,
            "semaphore" => zookeeper::semaphore::mutex(ensemble, 1, tasks),
            "multi" => zookeeper::multi::mutex(ensemble, tasks).mutex().clone(),
            _ => unknown(kind),
        }
    }

    /// One more process with a lock of this kind; a kind on Redis finds it at `url`.
    pub async fn process_behind(&self, kind: &Capabilities, url: &str) -> LeasedMutex {
        self.process_notified_at(kind, url, url).await
    }

    /// One more process with a lock of this kind; a kind on Redis finds it at `url` and hears its
    /// notifications at another address.
    pub async fn process_notified_at(
        &self,
        kind: &Capabilities,
        url: &str,
        notified_url: &str,
    ) -> LeasedMutex {
        if kind.backend != "redis" {
            return Box::pin(self.process(kind)).await;
        }
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let redis = connect(url).await;
        let notified = shared(notified_url, Options::default());
        let subscriber = &Subscriber::start(notified, prefix, tasks).expect("a prefix");
        let made = match kind.kind {
            "token" => redis_locks::token::notified(redis, subscriber, prefix, tasks),
            "reentrant" => redis_locks::reentrant::mutex(redis, subscriber, prefix, tasks),
            "fair" => redis_locks::fair::mutex(redis, subscriber, prefix, tasks),
            "plain" => redis_locks::plain::mutex(redis, prefix, tasks),
            "spin" => redis_locks::spin::mutex(redis, prefix, tasks),
            "redlock" => {
                let servers = independent_redis().await;
                let connections = servers.iter().map(|server| lazily(&server.url())).collect();
                let made = redis_locks::redlock::mutex(connections, prefix, tasks);
                Ok(made.expect("five servers and a prefix"))
            }
            "setnx" => demo::setnx::mutex(redis, prefix, tasks),
            "setnx-expire" => demo::setnx_expire::mutex(redis, prefix, Repair::ByWaiters, tasks),
            "getset" => demo::getset::mutex(redis, prefix, Arc::new(now_ms), tasks),
            // Used as if they were mutexes, with keys and fences of their own beside those of `token`.
            "read-write" => redis_locks::read_write::read_write(&redis, subscriber, prefix, tasks)
                .map(|lock| lock.write),
            "semaphore" => redis_locks::semaphore::mutex(redis, subscriber, prefix, 1, tasks),
            "expiring-semaphore" => {
                redis_locks::expiring_semaphore::mutex(redis, subscriber, prefix, 1, tasks)
            }
            "multi" => {
                let prefix = format!("{prefix}several:");
                redis_locks::multi::mutex(redis, subscriber, &prefix, tasks)
                    .map(|lock| lock.mutex().clone())
            }
            _ => unknown(kind),
        };
        made.expect("a prefix")
    }

    /// The notifications of one more process on Redis.
    pub async fn subscriber(&self) -> Subscriber {
        let servers = shared(&self.redis_url().await, Options::default());
        Subscriber::start(servers, &self.prefix, &TaskTracker::new()).expect("a prefix")
    }

    /// One more process with a read/write lock of this kind.
    pub async fn read_write(&self, kind: &Capabilities) -> ReadWrite {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        match kind.backend {
            "redis" => {
                let (redis, subscriber) =
                    (connect(&self.redis_url().await).await, self.subscriber().await);
                redis_locks::read_write::read_write(&redis, &subscriber, prefix, tasks)
                    .expect("a prefix")
            }
            "etcd" => {
                let client = etcd::Client::new(&etcd_url().await).expect("an address");
                etcd::read_write::lock(&client, prefix, tasks).expect("a prefix")
            }
            "zookeeper" => zookeeper::read_write::read_write(&self.ensemble().await, tasks),
            _ => unknown(kind),
        }
    }

    /// One more process with a semaphore of this kind.
    pub async fn semaphore(&self, kind: &Capabilities, permits_max: u32) -> LeasedMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let made = match (kind.backend, kind.kind) {
            ("redis", kind) => {
                let (redis, subscriber) =
                    (connect(&self.redis_url().await).await, &self.subscriber().await);
                let make = match kind {
                    "semaphore" => redis_locks::semaphore::mutex,
                    _ => redis_locks::expiring_semaphore::mutex,
                };
                make(redis, subscriber, prefix, permits_max, tasks)
            }
            ("etcd", _) => {
                let client = etcd::Client::new(&etcd_url().await).expect("an address");
                etcd::semaphore::semaphore(client, prefix, permits_max, tasks)
            }
            ("zookeeper", _) => {
                Ok(zookeeper::semaphore::mutex(&self.ensemble().await, permits_max, tasks))
            }
            _ => unknown(kind),
        };
        made.expect("a prefix")
    }

    /// One more process with a multi-lock of this kind.
    pub async fn multi(&self, kind: &Capabilities) -> MultiMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        match (kind.backend, kind.kind) {
            ("redis", "multi") => {
                let redis = connect(&self.redis_url().await).await;
                let subscriber = &self.subscriber().await;
                redis_locks::multi::mutex(redis, subscriber, prefix, tasks).expect("a prefix")
            }
            ("local", "multi") => local::multi(&self.names, tasks),
            ("zookeeper", "multi") => zookeeper::multi::mutex(&self.ensemble().await, tasks),
            _ => unknown(kind),
        }
    }

    /// One more process with a countdown latch of this kind.
    pub async fn latch(&self, kind: &Capabilities) -> Box<dyn CountdownLatch> {
        let redis = connect(&self.redis_url().await).await;
        match (kind.backend, kind.kind) {
            ("redis", "countdown-latch") => {
                let latch = redis_locks::countdown_latch::RedisLatch::new(
                    redis,
                    &self.subscriber().await,
                    &self.prefix,
                );
                Box::new(latch.expect("a prefix"))
            }
            _ => unknown(kind),
        }
    }

    /// One more process with a shared counter of this kind.
    pub async fn counter(&self, kind: &Capabilities) -> Box<dyn SharedCounter> {
        let redis = connect(&self.redis_url().await).await;
        match (kind.backend, kind.kind) {
            ("redis", "counter") => {
                let counter = redis_locks::counter::RedisCounter::new(redis, &self.prefix);
                Box::new(counter.expect("a prefix"))
            }
            ("zookeeper", "counter") => {
                Box::new(zookeeper::counter::counter(&self.ensemble().await))
            }
            _ => unknown(kind),
        }
    }

    /// The database that the MySQL kinds work in.
    pub async fn pool(&self) -> &sqlx::MySqlPool {
        &self.database.get_or_init(Database::new).await.pool
    }

    /// Where a process of its own finds that database.
    pub async fn database_url(&self) -> &str {
        &self.database.get_or_init(Database::new).await.url
    }

    /// Two processes with a lock of this kind, and how failures call it.
    pub async fn pair(&self, kind: &Capabilities) -> (&'static str, LeasedMutex, LeasedMutex) {
        (label(kind), self.process(kind).await, self.process(kind).await)
    }

    /// The kinds that can be held and that `applies` to, each with two processes.
    pub async fn pairs(
        &self,
        applies: impl Fn(&Capabilities) -> bool,
    ) -> Vec<(&'static str, LeasedMutex, LeasedMutex)> {
        let mut pairs = Vec::new();
        for kind in KINDS.iter().filter(|kind| can_be_held(kind) && applies(kind)) {
            pairs.push(self.pair(kind).await);
        }
        assert!(!pairs.is_empty(), "it applies to no kind at all");
        pairs
    }
}

fn unknown<T>(kind: &Capabilities) -> T {
    panic!("{} is on the list, but this suite cannot make it", label(kind))
}

/// Whether there are holders, and not only a number.
pub fn can_be_held(kind: &Capabilities) -> bool {
    !matches!(kind.primitive, Primitive::SharedCounter | Primitive::CountdownLatch)
}

/// The kind with this name on this backend.
pub fn listed(backend: &str, kind: &str) -> &'static Capabilities {
    let found = KINDS.iter().find(|listed| (listed.backend, listed.kind) == (backend, kind));
    found.expect("it is on the list")
}

/// How failures call a kind.
pub fn label(kind: &Capabilities) -> &'static str {
    format!("{} on {}", kind.kind, kind.backend).leak()
}

/// A connection that is made when it is used, since its server may be down.
pub fn lazily(url: &str) -> SharedConnection {
    let connect_timeout = Duration::from_millis(500);
    shared(url, Options { connect_timeout, ..Options::default() })
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the year 500 million")
}

pub fn name() -> LockName {
    LockName::new("{thing:1}:write").expect("a name")
}

/// Acquires the test's name, which must be free soon.
pub async fn granted(label: &str, process: &LeasedMutex, lease: Duration) -> Guard {
    let guard = process.acquire(&name(), waiting(lease)).await;
    guard.unwrap_or_else(|error| panic!("{label}: {error}"))
}

/// Whether an acquire that does not wait finds the test's name held.
pub async fn is_refused(process: &LeasedMutex) -> bool {
    matches!(process.acquire(&name(), at_once(LONG_LEASE)).await, Err(AcquireError::Busy))
}

/// Releases a hold, which must not be lost.
pub async fn let_go(label: &str, guard: Guard) {
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
}
