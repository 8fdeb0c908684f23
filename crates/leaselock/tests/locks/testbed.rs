//! The testbed: the one place that knows how a lock of each kind on the list is made.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leaselock::demo::setnx_expire::Repair;
use leaselock::redis::countdown_latch::RedisLatch;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    AcquireError, AcquireOptions, Capabilities, Guard, KINDS, LeasedMutex, LockName, MultiMutex,
    Primitive, ReadWrite, ReleaseOutcome, SharedCounter, demo, etcd, local, mysql,
    redis as redis_locks, zookeeper,
};
use redis_connection::{Options, SharedConnection};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::{LONG_LEASE, at_once, connect, shared, until, waiting, waiting_for};
use crate::support::{Database, etcd_url, independent_redis, redis_url, unique, zookeeper_hosts};

/// Makes the processes of one test, each with its own lock on the test's own names. Servers are
/// started when a kind first needs them. A clone has equal names and servers.
#[derive(Clone, Default)]
pub struct Testbed {
    pub prefix: String,
    names: local::Names,
    several: local::Names,
    /// The test's own Redis, etcd and ZooKeeper; none is that of the run.
    redis: Option<String>,
    /// Where notifications of Redis are heard; none is where its locks are.
    notified: Option<String>,
    etcd: Option<String>,
    zookeeper: Option<String>,
    database: Arc<OnceCell<Database>>,
}

impl Testbed {
    pub fn new() -> Self {
        Self { prefix: format!("{}:", unique("kinds")), ..Self::default() }
    }

    /// A testbed with equal names and another Redis.
    pub fn with_redis(&self, url: String) -> Self {
        Self { redis: Some(url), ..self.clone() }
    }

    /// A testbed with equal names and another etcd.
    pub fn with_etcd(&self, url: String) -> Self {
        Self { etcd: Some(url), ..self.clone() }
    }

    /// A testbed with equal names and another ZooKeeper.
    pub fn with_zookeeper(&self, hosts: String) -> Self {
        Self { zookeeper: Some(hosts), ..self.clone() }
    }

    async fn redis_url(&self) -> String {
        match &self.redis {
            Some(url) => url.clone(),
            None => redis_url().await,
        }
    }

    /// One more process's client of etcd.
    async fn etcd_client(&self) -> etcd::Client {
        let url = match &self.etcd {
            Some(url) => url.clone(),
            None => etcd_url().await,
        };
        etcd::Client::new(&url).expect("an address")
    }

    /// One more process's sessions with ZooKeeper.
    pub async fn ensemble(&self) -> Arc<zookeeper::Ensemble> {
        let hosts = match &self.zookeeper {
            Some(hosts) => hosts.clone(),
            None => zookeeper_hosts().await,
        };
        zookeeper::Ensemble::new(&hosts, &self.prefix).expect("a prefix")
    }

    /// One more process with a lock of this kind. A writer, an only permit and a set of names are used as if they were
    /// mutexes: nobody else may hold meanwhile.
    pub async fn process(&self, kind: &Capabilities) -> LeasedMutex {
        match kind.primitive {
            Primitive::ReadWrite => return self.read_write(kind).await.write,
            Primitive::Semaphore => return self.semaphore(kind, 1).await,
            Primitive::MultiLock => {
                // With keys and fences of their own beside those of `token`.
                let prefix = format!("{}several:", self.prefix);
                let apart = Self { prefix, names: self.several.clone(), ..self.clone() };
                return apart.multi(kind).await.mutex().clone();
            }
            _ => {}
        }
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        match (kind.backend, kind.kind) {
            ("redis", _) => self.redis(kind).await,
            ("mysql", _) => self.mysql(kind).await,
            ("etcd", "mutex") => {
                etcd::mutex::mutex(self.etcd_client().await, prefix, tasks).expect("a prefix")
            }
            ("zookeeper", "sequential") => {
                zookeeper::sequential::mutex(&self.ensemble().await, tasks)
            }
            ("zookeeper", "spin") => zookeeper::spin::mutex(&self.ensemble().await, tasks),
            ("zookeeper", "reentrant") => {
                zookeeper::reentrant::mutex(&self.ensemble().await, tasks)
            }
            ("local", "token") => local::mutex(&self.names, tasks),
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

    async fn redis(&self, kind: &Capabilities) -> LeasedMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let redis = connect(&self.redis_url().await).await;
        let subscriber = &self.subscriber().await;
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
            _ => unknown(kind),
        };
        made.expect("a prefix")
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
        let notified = Some(notified_url.to_owned());
        let testbed = Self { notified, ..self.with_redis(url.to_owned()) };
        Box::pin(testbed.process(kind)).await
    }

    /// The notifications of one more process on Redis.
    pub async fn subscriber(&self) -> Subscriber {
        let url = match &self.notified {
            Some(url) => url.clone(),
            None => self.redis_url().await,
        };
        let servers = shared(&url, Options::default());
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
                let client = self.etcd_client().await;
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
                etcd::semaphore::semaphore(self.etcd_client().await, prefix, permits_max, tasks)
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
    pub async fn latch(&self, kind: &Capabilities) -> RedisLatch<SharedConnection> {
        let redis = connect(&self.redis_url().await).await;
        match (kind.backend, kind.kind) {
            ("redis", "countdown-latch") => {
                let latch = RedisLatch::new(redis, &self.subscriber().await, &self.prefix);
                latch.expect("a prefix")
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
pub async fn granted(process: &LeasedMutex, lease: Duration) -> Guard {
    let guard = process.acquire(&name(), waiting(lease)).await;
    guard.unwrap_or_else(|error| panic!("{}: {error}", label(process.capabilities())))
}

/// Acquires the test's name, which must be free within `bound`. Until then the backend may refuse
/// commands.
pub async fn granted_within(
    bound: Duration,
    process: &LeasedMutex,
    options: impl Fn() -> AcquireOptions,
) -> Guard {
    let since = Instant::now();
    loop {
        match process.acquire(&name(), options()).await {
            Ok(guard) => return guard,
            Err(AcquireError::Unavailable(_)) if since.elapsed() < bound => {}
            Err(error) => panic!("{}: {error}", label(process.capabilities())),
        }
    }
}

/// Whether an acquire that does not wait finds the test's name held.
pub async fn is_refused(process: &LeasedMutex) -> bool {
    matches!(process.acquire(&name(), at_once(LONG_LEASE)).await, Err(AcquireError::Busy))
}

/// Releases a hold, which must not be lost.
pub async fn let_go(label: &str, guard: Guard) {
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
}

/// Asserts that an acquire that does not wait finds the test's name held.
pub async fn refused(process: &LeasedMutex) {
    let answer = process.acquire(&name(), at_once(LONG_LEASE)).await;
    let label = label(process.capabilities());
    assert!(matches!(answer, Err(AcquireError::Busy)), "{label}: {answer:?}");
}

/// Waits for the test's name in a task; returns when it was refused, so that it has its place in a queue.
pub async fn queued(process: &LeasedMutex, lease: Duration) -> JoinHandle<Guard> {
    let before = process.stats().snapshot().contended;
    let waiter = process.clone();
    let options = waiting_for(lease, LONG_LEASE);
    let waits =
        tokio::spawn(async move { waiter.acquire(&name(), options).await.expect("granted") });
    until("it waits", || process.stats().snapshot().contended > before).await;
    waits
}
