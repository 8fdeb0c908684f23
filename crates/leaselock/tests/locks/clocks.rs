//! M10: clocks that are an hour ahead or behind, of a client and of a server.
//!
//! A server of the test's own runs under libfaketime, which reads how wrong its clock is from a file.
//! etcd is left out: a Go program does not ask the library that libfaketime stands in for, and its
//! leases go by a clock that cannot be set.

use std::path::PathBuf;
use std::sync::Arc;

use dev_servers::{RedisOptions, RedisServer, ZookeeperOptions, ZookeeperServer};
use leaselock::{
    AcquireError, Fence, Fencing, KINDS, LeasedMutex, LockName, ReleaseOutcome, mysql,
};
use sqlx::Executor;
use sqlx::mysql::MySqlPoolOptions;
use tokio_util::task::TaskTracker;
use zookeeper_client::{Acls, CreateMode};

use super::kinds::granted;
use super::testbed::{Testbed, can_be_held, label, listed, name, now_ms, refused};
use super::{LONG_LEASE, SHORT_LEASE, at_once, connect, fence_of, waiting, waiting_for};

const HOUR: i64 = 3_600;

/// A process of `getset`, the only kind that reads a client's clock, whose clock is wrong by this.
async fn getset(testbed: &Testbed, wrong_by_seconds: i64) -> LeasedMutex {
    let clock: leaselock::demo::getset::ClockMs =
        Arc::new(move || now_ms().saturating_add_signed(wrong_by_seconds * 1_000));
    let redis = connect(&crate::support::redis_url().await).await;
    leaselock::demo::getset::mutex(redis, &testbed.prefix, clock, &TaskTracker::new())
        .expect("made")
}

/// What its page says: "Clocks must agree".
#[tokio::test]
async fn m10_getset_has_two_holders_or_none_when_a_clients_clock_is_wrong() {
    for (holders, anothers) in [(0, HOUR), (-HOUR, 0)] {
        let testbed = Testbed::new();
        let (holder, another) = (getset(&testbed, holders).await, getset(&testbed, anothers).await);
        let first = holder.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
        let second = another.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted as well");
        assert!(!first.is_lost() && !second.is_lost(), "both believe that they hold it");
    }
    for (holders, anothers) in [(HOUR, 0), (0, -HOUR)] {
        let testbed = Testbed::new();
        let (holder, another) = (getset(&testbed, holders).await, getset(&testbed, anothers).await);
        let guard = holder.acquire(&name(), at_once(SHORT_LEASE)).await.expect("granted");
        let options = waiting_for(LONG_LEASE, SHORT_LEASE * 3);
        let blocked = another.acquire(&name(), options).await;
        assert!(matches!(blocked, Err(AcquireError::TimedOut)), "{blocked:?}");
        assert!(guard.is_lost(), "the name is blocked beyond the lease of its holder");
    }
}

/// A process of `table` on MySQL to which the server's clock is wrong by this. It stands still
/// besides, as `SET timestamp` has it.
async fn table(testbed: &Testbed, wrong_by_seconds: i64) -> LeasedMutex {
    let set = format!("SET timestamp = UNIX_TIMESTAMP(SYSDATE(6)) + ({wrong_by_seconds})");
    let pool = MySqlPoolOptions::new().max_connections(2).after_connect(move |session, _| {
        let set = set.clone();
        Box::pin(async move { session.execute(&*set).await.map(drop) })
    });
    let pool = pool.connect(testbed.database_url().await).await.expect("a session");
    mysql::table::mutex(pool, &TaskTracker::new())
}

/// How far the end of the lease in the table is from this machine's clock, in seconds.
async fn leased_for_seconds(testbed: &Testbed) -> i64 {
    let query = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), leased_until) FROM locks";
    sqlx::query_scalar(query).fetch_one(testbed.pool().await).await.expect("one row")
}

/// Client and server disagree by an hour, and nothing comes of it: leases are the server's.
#[tokio::test]
async fn m10_the_table_excludes_by_the_servers_clock_alone() {
    for wrong_by_seconds in [HOUR, -HOUR] {
        let testbed = Testbed::new();
        let holder = table(&testbed, wrong_by_seconds).await;
        let another = table(&testbed, wrong_by_seconds).await;
        let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let leased_for = leased_for_seconds(&testbed).await;
        assert!((leased_for - wrong_by_seconds).abs() < 600, "{leased_for}");
        refused(&another).await;
        assert!(!guard.is_lost());
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        let guard = another.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    }
}

/// The server's own clock jumps while somebody holds. Back: nothing happens. Ahead: the lease is
/// over, as its page says, and the fence tells the two holders apart.
#[tokio::test]
async fn m10_the_table_has_two_holders_when_the_servers_clock_jumps_ahead() {
    let testbed = Testbed::new();
    let holder = table(&testbed, 0).await;
    let first = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let after_jump_back = table(&testbed, -HOUR).await;
    refused(&after_jump_back).await;
    let after_jump_ahead = table(&testbed, HOUR).await;
    let second = after_jump_ahead.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
    assert!(!first.is_lost() && !second.is_lost(), "both believe that they hold it");
    assert!(fence_of(&second) > fence_of(&first));
    assert_eq!(first.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(second.release().await, ReleaseOutcome::Released);
    let table = listed("mysql", "table");
    assert!(table.breaks_when.contains("clock jumps ahead"), "{}", table.breaks_when);
    assert_eq!(table.fencing, Fencing::Rising);
}

/// A row that was not used for long is swept, but not while its fence is ahead of the clock: the next
/// fence would be the clock's, which is lower.
#[tokio::test]
async fn m3_the_table_keeps_a_fence_that_is_ahead_of_the_clock() {
    const DAY_US: u64 = 24 * 3_600 * 1_000_000;
    let testbed = Testbed::new();
    let today = table(&testbed, 0).await;
    let guard = today.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let raised = Fence(fence_of(&guard).get() + 10 * DAY_US);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    assert_eq!(today.raise_fence(&name(), raised).await, Ok(()));
    // The first release of a process sweeps.
    let later = table(&testbed, 2 * 24 * HOUR).await;
    let other = LockName::new("other").expect("a name");
    let guard = later.acquire(&other, waiting(LONG_LEASE)).await.expect("granted");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let guard = later.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    assert!(fence_of(&guard) > raised, "{} after {raised}", fence_of(&guard));
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// How wrong the clock of a server is that was started by [`launcher`](Self::launcher).
struct WrongClock {
    file: PathBuf,
}

impl WrongClock {
    fn right() -> Self {
        let clock = Self { file: std::env::temp_dir().join(crate::support::unique("clock")) };
        clock.be_wrong_by_seconds(0);
        clock
    }

    fn be_wrong_by_seconds(&self, seconds: i64) {
        // Renamed: a reader must not see a file that is half written.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n")).expect("written");
        std::fs::rename(&next, &self.file).expect("renamed");
    }

    fn launcher(&self) -> Vec<String> {
        let library = dev_servers::libfaketime();
        let library = library.expect("libfaketime: scripts/install-packages lab installs it");
        vec![
            "env".to_owned(),
            // With the C library's own allocator in front: jemalloc, which Redis brings along, asks
            // for the time before libfaketime is ready to answer.
            format!("LD_PRELOAD={}:libc.so.6", library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".to_owned(),
            // Only the clock of the wall is wrong.
            "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        ]
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Redis ends leases by the clock of the wall. When that is set back, nobody gets in beside the
/// holder; when it is set ahead, whatever expires has two holders, as the pages say, and a fence,
/// where there is one, tells them apart.
#[tokio::test]
async fn m10_redis_has_two_holders_when_its_clock_jumps_ahead_and_never_when_it_jumps_back() {
    let (testbed, clock) = (Testbed::new(), WrongClock::right());
    let options = RedisOptions { launcher: clock.launcher(), ..RedisOptions::temporary() };
    let server = RedisServer::start(options).await.expect("Redis starts under another clock");
    let url = server.tcp_url();
    // Redlock has servers of its own: most of them would have to jump.
    let others = KINDS.iter().filter(|kind| kind.backend == "redis" && kind.kind != "redlock");
    let mut held = Vec::new();
    for kind in others.filter(|kind| can_be_held(kind)) {
        let holder = testbed.process_behind(kind, &url).await;
        let another = testbed.process_behind(kind, &url).await;
        let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await;
        let guard = guard.unwrap_or_else(|error| panic!("{}: {error}", label(kind)));
        held.push((kind, guard, another));
    }
    clock.be_wrong_by_seconds(-HOUR);
    for (kind, guard, another) in &held {
        refused(another).await;
        assert!(!guard.is_lost(), "{}", label(kind));
    }
    clock.be_wrong_by_seconds(HOUR);
    for (kind, first, another) in held {
        let second = another.acquire(&name(), at_once(LONG_LEASE)).await;
        // A time as the value is compared with the client's clock.
        if !kind.expires || kind.kind == "getset" {
            assert!(matches!(second, Err(AcquireError::Busy)), "{}: {second:?}", label(kind));
            continue;
        }
        assert!(kind.breaks_when.contains("clock jumps ahead"), "{}", label(kind));
        let second = second.unwrap_or_else(|error| panic!("{}: {error}", label(kind)));
        // The first one believes so, too, until it hears that its key has expired.
        assert!(!second.is_lost(), "{}", label(kind));
        if kind.fencing != Fencing::None {
            assert!(fence_of(&second) > fence_of(&first), "{}", label(kind));
        }
        assert_eq!(first.release().await, ReleaseOutcome::AlreadyLost, "{}", label(kind));
        assert_eq!(second.release().await, ReleaseOutcome::Released, "{}", label(kind));
    }
}

/// How far the server's clock is ahead of ours, by when it says that it made a node.
async fn zookeeper_is_wrong_by_seconds(client: &zookeeper_client::Client) -> i64 {
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (made, _) = client.create("/clock-", &[], &mode).await.expect("a node");
    let ours_ms = i64::try_from(now_ms()).expect("before the year 300 million");
    (made.ctime - ours_ms) / 1_000
}

/// ZooKeeper ends sessions by a clock that only goes forward.
#[tokio::test]
async fn m10_zookeeper_has_one_holder_whatever_its_clock_says() {
    let (testbed, clock) = (Testbed::new(), WrongClock::right());
    let options = ZookeeperOptions { launcher: clock.launcher(), ..ZookeeperOptions::temporary() };
    let server = ZookeeperServer::start(options).await.expect("ZooKeeper starts so");
    let testbed = testbed.with_zookeeper(server.hosts());
    let client = zookeeper_client::Client::connect(&server.hosts()).await.expect("a session");
    let mut held = Vec::new();
    for (kind, holder, another) in testbed.pairs(|kind| kind.backend == "zookeeper").await {
        // A server that has just started may answer its first commands too late.
        let guard = granted(&holder, LONG_LEASE).await;
        held.push((kind, guard, another));
    }
    for wrong_by_seconds in [-HOUR, HOUR] {
        clock.be_wrong_by_seconds(wrong_by_seconds);
        let wrong_by = zookeeper_is_wrong_by_seconds(&client).await;
        assert!((wrong_by - wrong_by_seconds).abs() < 600, "its clock did not jump: {wrong_by}");
        // Several of the server's looks at its sessions.
        tokio::time::sleep(SHORT_LEASE).await;
        for (kind, guard, another) in &held {
            refused(another).await;
            assert!(!guard.is_lost(), "{kind}");
        }
    }
    for (kind, guard, another) in held {
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
        let next = another.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        assert_eq!(next.release().await, ReleaseOutcome::Released, "{kind}");
    }
}
