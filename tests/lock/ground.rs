//! Where processes of every kind meet: the one place that knows how each kind on the list is made.

use std::sync::Arc;
use std::time::SystemTime;

use seckill::lock::redis::subscriber::Subscriber;
use seckill::lock::{
    Capabilities, KINDS, LeasedMutex, LockName, Primitive, etcd, local, mysql,
    redis as redis_locks, zookeeper,
};
use tokio_util::task::TaskTracker;

use super::connect;
use crate::support::Shop;

/// Where the processes of one test meet: servers for all kinds, and names that nobody else uses.
pub struct Ground {
    pub prefix: String,
    names: local::Names,
    shop: Shop,
}

impl Ground {
    pub async fn new() -> Self {
        let prefix = format!("{}:", crate::support::unique("kinds"));
        Self { prefix, names: local::Names::default(), shop: Shop::new().await }
    }

    /// One more process's sessions with ZooKeeper.
    pub async fn ensemble(&self) -> Arc<zookeeper::Ensemble> {
        let hosts = crate::support::zookeeper_hosts().await;
        zookeeper::Ensemble::new(&hosts, &self.prefix).expect("a prefix")
    }

    /// One more process with a lock of this kind.
    pub async fn process(&self, kind: &Capabilities) -> LeasedMutex {
        self.process_behind(kind, &crate::support::redis_url().await).await
    }

    /// The same, whose Redis is at `url`.
    pub async fn process_behind(&self, kind: &Capabilities, url: &str) -> LeasedMutex {
        let (prefix, tasks) = (&*self.prefix, &TaskTracker::new());
        let etcd = etcd::Client::new(&crate::support::etcd_url().await).expect("an address");
        let redis = connect(url).await;
        let client = redis::Client::open(url).expect("a Redis URL");
        let told = &Subscriber::start(client, prefix, tasks).expect("a prefix");
        let made = match (kind.backend, kind.kind) {
            ("local", "token") => Ok(local::mutex(&self.names, tasks)),
            ("mysql", "table") => Ok(mysql::table::mutex(self.shop.pool.clone(), tasks)),
            ("mysql", "named") => {
                let options = self.shop.pool.connect_options();
                Ok(mysql::named::mutex((*options).clone(), prefix, tasks))
            }
            ("etcd", "mutex") => etcd::mutex::mutex(etcd, prefix, tasks),
            // Used as if it were a mutex: nobody else may hold what a writer holds.
            ("etcd", "read-write") => {
                etcd::read_write::lock(&etcd, prefix, tasks).map(|lock| lock.write)
            }
            ("etcd", "semaphore") => etcd::semaphore::semaphore(etcd, prefix, 1, tasks),
            ("redis", "token") => redis_locks::token::notified(redis, told, prefix, tasks),
            ("redis", "reentrant") => redis_locks::reentrant::notified(redis, told, prefix, tasks),
            ("redis", "fair") => redis_locks::fair::notified(redis, told, prefix, tasks),
            ("redis", "setnx") => redis_locks::setnx::mutex(redis, prefix, tasks),
            ("redis", "setnx-expire") => {
                let repair = redis_locks::setnx_expire::Repair::ByWaiters;
                redis_locks::setnx_expire::mutex(redis, prefix, repair, tasks)
            }
            ("redis", "getset") => {
                redis_locks::getset::mutex(redis, prefix, Arc::new(now_ms), tasks)
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
            other => panic!("{other:?} is on the list, but this suite cannot make it"),
        };
        made.expect("a prefix")
    }

    /// The database that the MySQL kinds work in.
    pub fn pool(&self) -> &sqlx::MySqlPool {
        &self.shop.pool
    }

    /// The kinds that can be held and that `applies` to, each with two processes.
    pub async fn pairs(
        &self,
        applies: impl Fn(&Capabilities) -> bool,
    ) -> Vec<(&'static str, LeasedMutex, LeasedMutex)> {
        let mut pairs = Vec::new();
        let held = |kind: &&&Capabilities| kind.primitive != Primitive::SharedCounter;
        for kind in KINDS.iter().filter(held).filter(|kind| applies(kind)) {
            let label: &'static str = format!("{} on {}", kind.kind, kind.backend).leak();
            pairs.push((label, self.process(kind).await, self.process(kind).await));
        }
        assert!(!pairs.is_empty(), "it applies to no kind at all");
        pairs
    }
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("before the year 500 million")
}

pub fn name() -> LockName {
    LockName::new("{thing:1}:write").expect("a name")
}
