//! What is measured: the baseline, our locks, and those of two other crates with their defaults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_redis_lock::Locker;
use futures::future::BoxFuture;
use leaselock::redis::{plain, subscriber::Subscriber, token};
use leaselock::{AcquireOptions, LeasedMutex, LockName, ReleaseOutcome, Wait};
use loadtest::plain_lock;
use redis::aio::{ConnectionManager, MultiplexedConnection};
use rslock::LockManager;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

const LEASE: Duration = Duration::from_secs(10);
/// How long our locks wait at most. Far above what it takes here.
const WAIT: Duration = Duration::from_secs(30);

/// Acquires, waits for the given time, releases.
pub(crate) type Cycle = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// One kind of lock.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// All clients of one process have this.
    pub(crate) one: Cycle,
    /// Those of another process.
    pub(crate) other: Cycle,
    /// Whether it acquires by a plain `SET`.
    pub(crate) sets: bool,
    /// Whether it is also measured with several clients that want it.
    pub(crate) waits: bool,
}

/// All that are compared, the main one of ours first.
pub(crate) async fn all(url: &str) -> Vec<Subject> {
    vec![
        waiting("seckill token", cycle_of(ours(url).await), cycle_of(ours(url).await)),
        Subject {
            sets: true,
            ..waiting("rslock 0.10", cycle_of_rslock(url), cycle_of_rslock(url))
        },
        waiting(
            "async-redis-lock 0.4",
            cycle_of_async_redis_lock(url).await,
            cycle_of_async_redis_lock(url).await,
        ),
        without_fence(url).await,
    ]
}

/// A lock that several clients may want and that does not acquire by a plain `SET`.
fn waiting(name: &'static str, one: Cycle, other: Cycle) -> Subject {
    Subject { name, one, other, sets: false, waits: true }
}

/// Our lock with one `SET` and one compare-and-delete.
async fn without_fence(url: &str) -> Subject {
    let mutex = async || {
        let client = redis::Client::open(url).expect("a URL");
        let connection = ConnectionManager::new(client).await.expect("a connection");
        cycle_of(plain::mutex(connection, "bench:", &TaskTracker::new()).expect("a prefix"))
    };
    let one = mutex().await;
    Subject { name: "seckill plain", one, other: mutex().await, sets: true, waits: false }
}

/// K: what every lock on Redis has to do at least.
pub(crate) async fn baseline(url: &str) -> Cycle {
    let connection = connect(url).await;
    let number = Arc::new(AtomicU64::new(0));
    Arc::new(move |section| {
        let mut redis = connection.clone();
        let owner = format!("{:032x}", number.fetch_add(1, Ordering::Relaxed));
        Box::pin(async move {
            let taken = plain_lock::acquire(&mut redis, "bench:k", &owner, 10_000).await;
            assert!(taken.expect("SET"), "nobody else wants it");
            pass(section).await;
            let freed = plain_lock::release(&mut redis, "bench:k", &owner).await;
            assert!(freed.expect("DEL"), "it was ours");
        })
    })
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

async fn pass(section: Duration) {
    if !section.is_zero() {
        sleep(section).await;
    }
}

/// As a process of the service has it: two connections of its own.
async fn ours(url: &str) -> LeasedMutex {
    let tasks = TaskTracker::new();
    let client = redis::Client::open(url).expect("a URL");
    let subscriber = Subscriber::start(client.clone(), "bench:", &tasks).expect("a prefix");
    let connection = ConnectionManager::new(client).await.expect("a connection");
    token::notified(connection, &subscriber, "bench:", &tasks).expect("a prefix")
}

fn cycle_of(mutex: LeasedMutex) -> Cycle {
    let name = LockName::new("{bench}").expect("a name");
    Arc::new(move |section| {
        let mutex = mutex.clone();
        let name = name.clone();
        Box::pin(async move {
            let wait = Wait::Until(Instant::now() + WAIT);
            let guard = mutex.acquire(&name, AcquireOptions { lease: LEASE, wait }).await;
            let guard = guard.expect("granted");
            pass(section).await;
            assert_eq!(guard.release().await, ReleaseOutcome::Released);
        })
    })
}

fn cycle_of_rslock(url: &str) -> Cycle {
    let manager = LockManager::new(vec![url.to_owned()]);
    Arc::new(move |section| {
        let manager = manager.clone();
        Box::pin(async move {
            let guard = manager.acquire(&b"bench:rslock"[..], LEASE).await.expect("granted");
            pass(section).await;
            guard.release().await;
        })
    })
}

async fn cycle_of_async_redis_lock(url: &str) -> Cycle {
    let locker = Locker::from_redis_url(url).await.expect("a connection");
    Arc::new(move |section| {
        let locker = locker.clone();
        Box::pin(async move {
            let guard = loop {
                match locker.acquire("bench:async-redis-lock").await {
                    Ok(guard) => break guard,
                    // It gives up after a second. Its clients would try again.
                    Err(async_redis_lock::Error::Timeout) => {}
                    Err(error) => panic!("async-redis-lock: {error}"),
                }
            };
            pass(section).await;
            guard.release().await.expect("released");
        })
    })
}
