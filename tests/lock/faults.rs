//! The known-bad kinds fail as their files say, and the good ones next to them do not.

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncCommands;
use redis::aio::ConnectionManager;
use seckill::lock::redis::setnx_expire::Repair;
use seckill::lock::{
    AcquireError, AcquireOptions, Capabilities, KINDS, LeasedMutex, Mutex, ReleaseOutcome, Wait,
    redis as redis_locks,
};
use sqlx::Executor;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::ground::{Ground, name, now_ms};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, connect, until_lost, waiting};

/// What a dead process left in the key.
const DEAD: &str = "ffffffffffffffffffffffffffffffff";

async fn bare_redis() -> ConnectionManager {
    connect(&crate::support::redis_url().await).await
}

fn listed(backend: &str, kind: &str) -> &'static Capabilities {
    let found = KINDS.iter().find(|listed| (listed.backend, listed.kind) == (backend, kind));
    found.expect("it is on the list")
}

fn key(ground: &Ground, kind: &str) -> String {
    format!("{}{kind}:lock:{}", ground.prefix, name())
}

/// Tries for three leases.
async fn is_blocked(process: &LeasedMutex) -> bool {
    let wait = Wait::Until(Instant::now() + SHORT_LEASE * 3);
    let answer = process.acquire(&name(), AcquireOptions { lease: SHORT_LEASE, wait }).await;
    matches!(answer, Err(AcquireError::TimedOut))
}

#[tokio::test]
async fn setnx_blocks_for_ever_after_its_holder_died() {
    let ground = Ground::new().await;
    let process = ground.process(listed("redis", "setnx")).await;
    let () = bare_redis().await.set(key(&ground, "setnx"), DEAD).await.expect("SET");
    assert!(is_blocked(&process).await);
    let left_ms: i64 = bare_redis().await.pttl(key(&ground, "setnx")).await.expect("PTTL");
    assert_eq!(left_ms, -1, "it would end some time");
}

#[tokio::test]
async fn setnx_expire_blocks_when_its_holder_died_between_the_commands_and_nobody_repairs() {
    let ground = Ground::new().await;
    let process = async |repair| {
        let tasks = TaskTracker::new();
        redis_locks::setnx_expire::mutex(bare_redis().await, &ground.prefix, repair, &tasks)
            .expect("a prefix")
    };
    // SETNX was the dead one's last command.
    let () = bare_redis().await.set(key(&ground, "setnx-expire"), DEAD).await.expect("SET");
    assert!(is_blocked(&process(Repair::Never).await).await);
    let repairing = process(Repair::ByWaiters).await;
    let since = Instant::now();
    let guard = repairing.acquire(&name(), waiting(SHORT_LEASE)).await.expect("repaired");
    assert!(since.elapsed() >= SHORT_LEASE, "a repaired lock still has a whole lease");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// The loser is played by hand, so that it looks before and writes after the winner.
#[tokio::test]
async fn getset_lets_a_loser_cover_the_winner_who_then_does_not_know_its_own_lock() {
    let ground = Ground::new().await;
    let winner = ground.process(listed("redis", "getset")).await;
    let (mut redis, key) = (bare_redis().await, key(&ground, "getset"));
    let expired = now_ms() - 1_000;
    let () = redis.set(&key, expired).await.expect("SET");
    let seen: u64 = redis.get(&key).await.expect("GET");
    assert_eq!(seen, expired);
    let guard = winner.acquire(&name(), waiting(LONG_LEASE)).await.expect("taken over");
    let covered: u64 = redis.getset(&key, now_ms() + 60_000).await.expect("GETSET");
    assert_ne!(covered, seen, "the loser has lost, and has covered the winner's time");
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "the lock is recognised");
    assert!(is_blocked(&winner).await, "everyone waits for the loser's time to pass");
}

/// A process whose clock runs ahead takes every hold for expired.
#[tokio::test]
async fn getset_has_two_holders_when_clocks_disagree() {
    let ground = Ground::new().await;
    let holder = ground.process(listed("redis", "getset")).await;
    let ahead: redis_locks::getset::ClockMs = Arc::new(|| now_ms() + 3_600_000);
    let tasks = TaskTracker::new();
    let hasty = redis_locks::getset::mutex(bare_redis().await, &ground.prefix, ahead, &tasks)
        .expect("made");
    let first = holder.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted");
    let second = hasty.acquire(&name(), at_once(LONG_LEASE)).await.expect("granted as well");
    assert!(!first.is_lost() && !second.is_lost(), "both believe that they hold it");
}

/// W4: a waiter that died at the head of the queue costs its liveness window and no more.
#[tokio::test]
async fn fair_waits_for_a_dead_waiter_no_longer_than_its_window() {
    let ground = Ground::new().await;
    let process = ground.process(listed("redis", "fair")).await;
    let mut redis = bare_redis().await;
    let in_slot = |word: &str| format!("{}fair:{word}:{}", ground.prefix, name());
    let now_us = now_ms() * 1_000;
    let () = redis.zadd(in_slot("queue"), DEAD, now_us - 1).await.expect("ZADD");
    let () = redis.hset(in_slot("said"), DEAD, format!("{now_us} 30000 1 ")).await.expect("HSET");
    let since = Instant::now();
    let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let waited = since.elapsed();
    let alive = redis_locks::fair::ALIVE;
    assert!(waited > alive / 2, "{waited:?}: the dead one was not waited for at all");
    assert!(waited < alive + Duration::from_secs(1), "{waited:?}");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let left: u64 = redis.exists(&[in_slot("queue"), in_slot("said")]).await.expect("EXISTS");
    assert_eq!(left, 0, "the queue is empty");
}

/// Who gives up waiting leaves the queue at once, not after the window.
#[tokio::test]
async fn fair_forgets_a_waiter_that_gave_up() {
    let ground = Ground::new().await;
    let kind = listed("redis", "fair");
    let (first, second) = (ground.process(kind).await, ground.process(kind).await);
    let holder = first.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    assert!(matches!(second.acquire(&name(), at_once(LONG_LEASE)).await, Err(AcquireError::Busy)));
    let queue = format!("{}fair:queue:{}", ground.prefix, name());
    let mut redis = bare_redis().await;
    let since = Instant::now();
    while redis.exists(&queue).await.expect("EXISTS") {
        assert!(since.elapsed() < redis_locks::fair::ALIVE / 2, "still in the queue");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
}

/// P1: the session is killed under its holder: the name is free at once, and the holder is told.
#[tokio::test]
async fn named_locks_end_with_their_session() {
    let ground = Ground::new().await;
    let kind = listed("mysql", "named");
    let (holder, other) = (ground.process(kind).await, ground.process(kind).await);
    let lease = Duration::from_secs(3);
    let guard = holder.acquire(&name(), waiting(lease)).await.expect("granted");
    let sessions: Vec<u64> = sqlx::query_scalar(
        "SELECT CAST(id AS UNSIGNED) FROM information_schema.processlist \
         WHERE db = DATABASE() AND id <> CONNECTION_ID() AND command = 'Sleep' AND info IS NULL",
    )
    .fetch_all(ground.pool())
    .await
    .expect("the list of sessions");
    for session in sessions {
        // Some may belong to the pool and be gone already.
        let _ = ground.pool().execute(sqlx::raw_sql(&format!("KILL {session}"))).await;
    }
    let next = timeout(lease / 2, other.acquire(&name(), waiting(lease))).await;
    let next = next.expect("free at once").expect("granted");
    until_lost(&guard).await;
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    assert!(PATIENCE > lease);
}
