//! M10: clocks that are an hour ahead or behind, of a client and of a server.

use std::sync::Arc;

use seckill::lock::{
    AcquireError, AcquireOptions, Fencing, KINDS, LeasedMutex, Mutex, ReleaseOutcome, Wait, mysql,
    redis as redis_locks,
};
use sqlx::Executor;
use sqlx::mysql::MySqlPoolOptions;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::ground::{Ground, name, now_ms};
use super::{LONG_LEASE, SHORT_LEASE, at_once, connect, fence_of, waiting};

const HOUR: i64 = 3_600;

/// A process of `getset`, the only kind that reads a client's clock, whose clock is wrong by this.
async fn getset(ground: &Ground, wrong_by_seconds: i64) -> LeasedMutex {
    let clock: redis_locks::getset::ClockMs =
        Arc::new(move || now_ms().saturating_add_signed(wrong_by_seconds * 1_000));
    let redis = connect(&crate::support::redis_url().await).await;
    redis_locks::getset::mutex(redis, &ground.prefix, clock, &TaskTracker::new()).expect("made")
}

/// What its page says: "Clocks must agree".
#[tokio::test]
async fn m10_getset_has_two_holders_or_none_when_a_clients_clock_is_wrong() {
    let ground = Ground::new().await;
    for (holders, anothers) in [(0, HOUR), (-HOUR, 0)] {
        let ground = ground.elsewhere();
        let (holder, another) = (getset(&ground, holders).await, getset(&ground, anothers).await);
        let first = holder.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
        let second = another.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted as well");
        assert!(!first.is_lost() && !second.is_lost(), "both believe that they hold it");
    }
    for (holders, anothers) in [(HOUR, 0), (0, -HOUR)] {
        let ground = ground.elsewhere();
        let (holder, another) = (getset(&ground, holders).await, getset(&ground, anothers).await);
        let guard = holder.acquire(&name(), at_once(SHORT_LEASE)).await.expect("granted");
        let wait = Wait::Until(Instant::now() + SHORT_LEASE * 3);
        let blocked = another.acquire(&name(), AcquireOptions { lease: LONG_LEASE, wait }).await;
        assert!(matches!(blocked, Err(AcquireError::TimedOut)), "{blocked:?}");
        assert!(guard.is_lost(), "the name is blocked beyond the lease of its holder");
    }
}

/// A process of `table` on MySQL to which the server's clock is wrong by this. It stands still
/// besides, as `SET timestamp` has it.
async fn table(ground: &Ground, wrong_by_seconds: i64) -> LeasedMutex {
    let set = format!("SET timestamp = UNIX_TIMESTAMP(SYSDATE(6)) + ({wrong_by_seconds})");
    let pool = MySqlPoolOptions::new().max_connections(2).after_connect(move |session, _| {
        let set = set.clone();
        Box::pin(async move { session.execute(&*set).await.map(drop) })
    });
    let pool = pool.connect(ground.database_url()).await.expect("a session");
    mysql::table::mutex(pool, &TaskTracker::new())
}

/// How far the end of the lease in the table is from this machine's clock, in seconds.
async fn leased_for_seconds(ground: &Ground) -> i64 {
    let query = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), leased_until) FROM locks";
    sqlx::query_scalar(query).fetch_one(ground.pool()).await.expect("one row")
}

/// Client and server disagree by an hour, and nothing comes of it: leases are the server's.
#[tokio::test]
async fn m10_the_table_excludes_by_the_servers_clock_alone() {
    for wrong_by_seconds in [HOUR, -HOUR] {
        let ground = Ground::new().await;
        let holder = table(&ground, wrong_by_seconds).await;
        let another = table(&ground, wrong_by_seconds).await;
        let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let leased_for = leased_for_seconds(&ground).await;
        assert!((leased_for - wrong_by_seconds).abs() < 600, "{leased_for}");
        let refused = another.acquire(&name(), at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{refused:?}");
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
    let ground = Ground::new().await;
    let holder = table(&ground, 0).await;
    let first = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let after_jump_back = table(&ground, -HOUR).await;
    let refused = after_jump_back.acquire(&name(), at_once(LONG_LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::Busy)), "{refused:?}");
    let after_jump_ahead = table(&ground, HOUR).await;
    let second = after_jump_ahead.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
    assert!(!first.is_lost() && !second.is_lost(), "both believe that they hold it");
    assert!(fence_of(&second) > fence_of(&first));
    assert_eq!(first.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(second.release().await, ReleaseOutcome::Released);
    let table = KINDS.iter().find(|kind| (kind.backend, kind.kind) == ("mysql", "table"));
    let table = table.expect("it is on the list");
    assert!(table.breaks_when.contains("clock jumps ahead"), "{}", table.breaks_when);
    assert_eq!(table.fencing, Fencing::Rising);
}
