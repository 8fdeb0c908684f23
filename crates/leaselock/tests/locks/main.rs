//! The locks against real servers, each started when a test first needs it.
//!
//! `kinds`, `read_write`, `semaphores`, `multi_locks`, `countdown_latches` and `shared_counters` have a
//! named test per kind and promise (`cargo test redis_token` runs one kind). `faults`, `failover` and
//! `redlock` show what goes wrong and what does not. The others look closely at the main kind, `token`
//! on `redis`.
//!
//! A "process" here is a lock of its own with a connection of its own: processes share nothing but
//! the server. Faults come from a proxy between such a process and the server.

mod cancelling;
mod clocks;
mod cluster_permits;
mod clusters;
mod combining;
mod comparing;
mod conformance;
mod countdown_latches;
mod counting;
mod dying;
mod etcd;
mod etcd_access;
mod failover;
mod failovers;
mod faults;
mod fenced_number;
mod handing;
mod histories;
mod kinds;
mod linear;
mod linear_failover;
mod links;
mod many_waiters;
mod multi_locks;
mod notifying;
mod pausing;
mod polling;
mod read_write;
mod redlock;
mod runtimes;
mod safety;
mod semaphores;
mod servers;
mod shared_counters;
mod sharing;
mod short;
mod support;
mod testbed;
mod traces;
mod tracking;
mod wait_strategies;
mod zookeeper;

use std::time::Duration;

use futures::poll;
use leaselock::{
    AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, ReleaseOutcome, WAITERS_MAX, Wait,
    redis as redis_locks,
};
use redis::AsyncCommands;
use redis_connection::{Address, Options, SharedConnection};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use testbed::{granted, name};

/// Long enough that nothing in a test ends by expiry unless it means to.
const LONG_LEASE: Duration = Duration::from_secs(30);

/// The shortest lease, for tests that wait for the end of one.
const SHORT_LEASE: Duration = leaselock::LEASE_MIN;

/// How long a test waits for something that has to happen. Far above what it takes, far below
/// [`LONG_LEASE`].
const PATIENCE: Duration = Duration::from_secs(5);

/// A testbed for the kind `token` on Redis: a key prefix of one test, and a bare connection that reads
/// the keys without the lock.
struct TokenTestbed {
    prefix: String,
    redis: SharedConnection,
}

impl TokenTestbed {
    async fn new() -> Self {
        Self {
            prefix: format!("{}:", support::unique("lock")),
            redis: connect(&support::redis_url().await).await,
        }
    }

    /// One more process.
    async fn process(&self) -> LeasedMutex {
        let connection = connect(&support::redis_url().await).await;
        redis_locks::token::mutex(connection, &self.prefix, &TaskTracker::new()).expect("a prefix")
    }

    fn lock_key(&self) -> String {
        format!("{}lock:{}", self.prefix, name())
    }

    fn fence_key(&self) -> String {
        format!("{}fence:{{thing:1}}", self.prefix)
    }

    /// What the server keeps for the lock, if it is held.
    async fn value(&self) -> Option<String> {
        let mut redis = self.redis.clone();
        redis.get(self.lock_key()).await.expect("GET the lock")
    }

    /// The rest of the lease in milliseconds, negative if the key is absent or has no expiry.
    async fn lease_left_ms(&self) -> i64 {
        let mut redis = self.redis.clone();
        redis.pttl(self.lock_key()).await.expect("PTTL the lock")
    }

    async fn delete(&self, key: String) {
        let mut redis = self.redis.clone();
        let _deleted: u64 = redis.del(key).await.expect("DEL");
    }

    /// Takes the lock for a foreigner that never renews, whoever held it before.
    async fn take_over(&self, lease: Duration) {
        let mut redis = self.redis.clone();
        let lease_ms = u64::try_from(lease.as_millis()).expect("a short lease");
        let () = redis.pset_ex(self.lock_key(), FOREIGNER, lease_ms).await.expect("SET the lock");
    }

    /// Waits until nobody holds the lock, and fails unless that is soon.
    async fn wait_until_free(&self) {
        let since = Instant::now();
        while self.value().await.is_some() {
            assert!(since.elapsed() < PATIENCE, "the lock was leaked");
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The value that a holder from elsewhere has in the lock's key.
const FOREIGNER: &str = "00000000000000000000000000000000:7";

async fn connect(url: &str) -> SharedConnection {
    let redis = shared(url, Options::default());
    redis.primaries().await.expect("a server");
    redis
}

/// A connection to a server, to the primary of Sentinels, or to a cluster.
fn shared(url: &str, options: Options) -> SharedConnection {
    let address = Address::parse(url).expect("a Redis URL");
    let address = address.with_certificates(&support::certificates()).expect("certificates");
    SharedConnection::new(&address, options).expect("a connection")
}

/// Waits for at most [`PATIENCE`].
fn waiting(lease: Duration) -> AcquireOptions {
    waiting_for(lease, PATIENCE)
}

/// Waits for at most this time.
fn waiting_for(lease: Duration, wait_max: Duration) -> AcquireOptions {
    AcquireOptions { lease, wait: Wait::Until(Instant::now() + wait_max) }
}

/// Never waits.
fn at_once(lease: Duration) -> AcquireOptions {
    AcquireOptions { lease, wait: Wait::Never }
}

/// The fence of a kind that has fences.
fn fence_of(guard: &Guard) -> Fence {
    guard.fence().expect("this kind has fences")
}

/// Waits until the guard tells that it is lost, and fails unless that is soon.
async fn until_lost(guard: &Guard) {
    timeout(PATIENCE, guard.lost().cancelled()).await.expect("the lost signal fires");
}

/// Waits until `condition` holds, and fails with `what` unless that is soon.
async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < PATIENCE, "it never happened: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn options_that_cannot_be_safe_are_refused() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    for lease in [
        Duration::ZERO,
        leaselock::LEASE_MIN - Duration::from_millis(1),
        leaselock::LEASE_MAX + Duration::from_millis(1),
    ] {
        let answer = process.acquire(&name(), at_once(lease)).await;
        assert!(
            matches!(answer, Err(AcquireError::InvalidOptions(_))),
            "{lease:?} gave {answer:?}"
        );
    }
    assert_eq!(testbed.value().await, None);
}

#[tokio::test]
async fn the_line_has_an_end() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let guard = granted(&process, LONG_LEASE).await;
    let mut line = Vec::new();
    for _ in 0..WAITERS_MAX {
        let mut waiter = process.acquire(&name(), waiting(LONG_LEASE));
        assert!(poll!(&mut waiter).is_pending());
        line.push(waiter);
    }
    let refused = process.acquire(&name(), waiting(LONG_LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::TooManyWaiters)), "{refused:?}");
    assert_eq!(process.stats().snapshot().waiting_now, WAITERS_MAX);
    drop(line);
    assert_eq!(process.stats().snapshot().waiting_now, 0);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}
