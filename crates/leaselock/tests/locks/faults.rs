//! The known-bad kinds fail as their files say, every time, and the good ones next to them do not.
//! `SECKILL_TEST_ROUNDS=100` repeats each failure a hundred times.

use std::time::Duration;

use leaselock::demo::setnx_expire::{self, Repair};
use leaselock::{AcquireError, LeasedMutex, ReleaseOutcome, mysql, redis as redis_locks};
use redis::AsyncCommands;
use redis_connection::SharedConnection;
use sqlx::Executor;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::dying::{Child, LATE, Role};
use super::fenced_number::Number;
use super::testbed::{Testbed, listed, name, now_ms, refused};
use super::{
    LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, connect, until, until_lost, waiting, waiting_for,
};
use crate::support::rounds;

/// A waiter that is gone.
const DEAD: &str = "ffffffffffffffffffffffffffffffff";

async fn bare_redis() -> SharedConnection {
    connect(&crate::support::redis_url().await).await
}

fn key(testbed: &Testbed, kind: &str) -> String {
    format!("{}{kind}:lock:{}", testbed.prefix, name())
}

/// Tries for three short leases. With a long one of its own, so that commands may take
/// their time.
async fn is_blocked(process: &LeasedMutex) -> bool {
    let answer = process.acquire(&name(), waiting_for(LONG_LEASE, SHORT_LEASE * 3)).await;
    matches!(answer, Err(AcquireError::TimedOut))
}

/// Whoever had the key in it is dead.
async fn never_expires(key: &str) -> bool {
    let left_ms: i64 = bare_redis().await.pttl(key).await.expect("PTTL");
    left_ms == -1
}

#[tokio::test]
async fn setnx_blocks_for_ever_after_its_holder_was_killed() {
    for _ in 0..rounds(1) {
        let testbed = Testbed::new();
        let process = testbed.process(listed("redis", "setnx")).await;
        let mut child = Child::start(&testbed, Role::HoldsSetnx).await;
        child.says("held").await;
        child.kill().await;
        assert!(never_expires(&key(&testbed, "setnx")).await);
        assert!(is_blocked(&process).await);
    }
}

#[tokio::test]
async fn setnx_expire_blocks_when_its_holder_was_killed_between_the_commands_and_nobody_repairs() {
    for _ in 0..rounds(1) {
        let testbed = Testbed::new();
        let process = async |repair| {
            let tasks = TaskTracker::new();
            setnx_expire::mutex(bare_redis().await, &testbed.prefix, repair, &tasks)
                .expect("a prefix")
        };
        let mut child = Child::start(&testbed, Role::BetweenSetnxAndExpire).await;
        child.says("held").await;
        child.kill().await;
        assert!(is_blocked(&process(Repair::Never).await).await, "nobody repairs");
        assert!(never_expires(&key(&testbed, "setnx-expire")).await);
        let repairing = process(Repair::ByWaiters).await;
        let since = Instant::now();
        let guard = repairing.acquire(&name(), waiting(SHORT_LEASE)).await.expect("repaired");
        assert!(since.elapsed() >= SHORT_LEASE, "a repaired lock still has a whole lease");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    }
}

/// The loser is played by hand, so that it looks before and writes after the winner.
#[tokio::test]
async fn getset_lets_a_loser_cover_the_winner_who_then_does_not_know_its_own_lock() {
    for round in 0..rounds(5) {
        let testbed = Testbed::new();
        let winner = testbed.process(listed("redis", "getset")).await;
        let (mut redis, key) = (bare_redis().await, key(&testbed, "getset"));
        let expired = now_ms() - 1_000;
        let () = redis.set(&key, expired).await.expect("SET");
        let seen: u64 = redis.get(&key).await.expect("GET");
        assert_eq!(seen, expired);
        let guard = winner.acquire(&name(), waiting(LONG_LEASE)).await.expect("taken over");
        let covered: u64 = redis.getset(&key, now_ms() + 60_000).await.expect("GETSET");
        assert_ne!(covered, seen, "the loser has lost, and has covered the winner's time");
        assert!(!guard.is_lost(), "the winner holds it, and nobody else");
        assert_eq!(
            guard.release().await,
            ReleaseOutcome::AlreadyLost,
            "the holder loses its own lock"
        );
        if round == 0 {
            assert!(is_blocked(&winner).await, "everyone waits for the loser's time to pass");
        }
    }
}

/// M2 with a process of its own: it looks, is stopped beyond its lease, and then writes. Only without a fence is the late
/// write kept.
async fn late_writes(role: Role) {
    let testbed = Testbed::new();
    Number::make(&testbed).await;
    let mut number = Number::open(&testbed).await;
    // It polls, so that it is there as soon as the lease is over.
    let tasks = TaskTracker::new();
    let next = redis_locks::token::mutex(bare_redis().await, &testbed.prefix, &tasks);
    let next = next.expect("a prefix");
    let mut child = Child::start(&testbed, role).await;
    let comes_through = role == Role::WritesBare;
    for round in 0..rounds(3) {
        child.says("held").await;
        child.stop().await;
        // Heard when it goes on, and by then its lease is over.
        child.go_on().await;
        let guard = next.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted in time");
        let fence = guard.fence().expect("a fence").get();
        assert!(number.read(fence).await.is_some() && number.write(LATE + 1, fence).await);
        child.resume().await;
        child.says(if comes_through { "wrote" } else { "refused" }).await;
        let kept = number.read(fence).await;
        assert_eq!(kept == Some(LATE), comes_through, "round {round}: {kept:?}");
        assert!(!guard.is_lost(), "round {round}: the next holder still holds it");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        child.go_on().await;
    }
}

#[tokio::test]
async fn a_stopped_holder_writes_after_the_next_one_without_a_fence() {
    late_writes(Role::WritesBare).await;
}

#[tokio::test]
async fn a_stopped_holder_is_refused_with_a_fence() {
    late_writes(Role::WritesFenced).await;
}

/// W4: a waiter that died at the head of the queue costs its liveness window and no more, also when the server's clock
/// was set back since.
#[tokio::test]
async fn fair_waits_for_a_dead_waiter_no_longer_than_its_window() {
    const HOUR_US: u64 = 3_600_000_000;
    let testbed = Testbed::new();
    let process = testbed.process(listed("redis", "fair")).await;
    let mut redis = bare_redis().await;
    let queue = format!("{}fair:queue:{}", testbed.prefix, name());
    let alive = redis_locks::fair::ALIVE;
    for set_back_us in [0, HOUR_US] {
        let now_us = now_ms() * 1_000;
        let said = format!("{} {} 30000 1 ", now_us - 1, now_us + set_back_us);
        let () = redis.hset(&queue, DEAD, said).await.expect("HSET");
        let since = Instant::now();
        let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let waited = since.elapsed();
        let is_waited_for = waited > alive / 2;
        assert!(is_waited_for || set_back_us > 0, "{waited:?}: not waited for at all");
        assert!(waited < alive + Duration::from_secs(1), "{waited:?}");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        let left: bool = redis.exists(&queue).await.expect("EXISTS");
        assert!(!left, "the queue is empty");
    }
}

/// Who gives up waiting leaves the queue at once, not after the window.
#[tokio::test]
async fn fair_forgets_a_waiter_that_gave_up() {
    let testbed = Testbed::new();
    let kind = listed("redis", "fair");
    let (first, second) = (testbed.process(kind).await, testbed.process(kind).await);
    let holder = first.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    assert!(matches!(second.acquire(&name(), at_once(LONG_LEASE)).await, Err(AcquireError::Busy)));
    let queue = format!("{}fair:queue:{}", testbed.prefix, name());
    let mut redis = bare_redis().await;
    let since = Instant::now();
    while redis.exists(&queue).await.expect("EXISTS") {
        assert!(since.elapsed() < redis_locks::fair::ALIVE / 2, "still in the queue");
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
}

/// A process of `named` whose session the server ends after a second without a command.
async fn named_for_a_second(testbed: &Testbed) -> LeasedMutex {
    let pool = testbed.pool().await.clone();
    let options = move || pool.connect_options();
    mysql::named::mutex(options, &testbed.prefix, Duration::from_secs(1), &TaskTracker::new())
}

/// P1: a session that idles ends no sooner than the leases that it carries.
#[tokio::test]
async fn a_session_that_idles_keeps_named_locks_for_their_leases() {
    let testbed = Testbed::new();
    let (holder, other) = (named_for_a_second(&testbed).await, named_for_a_second(&testbed).await);
    // Renewed after a second and a half: until then the session says nothing.
    let guard = holder.acquire(&name(), waiting(Duration::from_millis(4_500))).await;
    let guard = guard.expect("granted");
    let granted_until = guard.deadline();
    until("it was renewed", || guard.deadline() > granted_until).await;
    refused(&other).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// P1: a session that idled for longer has ended, its holder knows, and comes back with another.
#[tokio::test]
async fn a_session_that_idled_away_ends_named_locks_and_their_holder_knows() {
    let testbed = Testbed::new();
    let (holder, other) = (named_for_a_second(&testbed).await, named_for_a_second(&testbed).await);
    let guard = holder.acquire(&name(), waiting(Duration::from_secs(1))).await.expect("granted");
    // Blocks the only thread of this runtime, so that nothing is renewed.
    std::thread::sleep(Duration::from_millis(2_500));
    let next = other.acquire(&name(), waiting(LONG_LEASE)).await.expect("free");
    assert!(guard.is_lost());
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    let refused = holder.acquire(&name(), at_once(LONG_LEASE)).await;
    assert!(refused.is_err(), "somebody else has it");
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    let again = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("on a new session");
    assert_eq!(again.release().await, ReleaseOutcome::Released);
}

/// P1: the session is killed under its holder: the name is free at once, and the holder is notified.
#[tokio::test]
async fn named_locks_end_with_their_session() {
    let testbed = Testbed::new();
    let kind = listed("mysql", "named");
    let (holder, other) = (testbed.process(kind).await, testbed.process(kind).await);
    let lease = Duration::from_secs(3);
    let guard = holder.acquire(&name(), waiting(lease)).await.expect("granted");
    let sessions: Vec<u64> = sqlx::query_scalar(
        "SELECT CAST(id AS UNSIGNED) FROM information_schema.processlist \
         WHERE db = DATABASE() AND id <> CONNECTION_ID() AND command = 'Sleep' AND info IS NULL",
    )
    .fetch_all(testbed.pool().await)
    .await
    .expect("the list of sessions");
    for session in sessions {
        // Some may belong to the pool and be gone already.
        let _ = testbed.pool().await.execute(sqlx::raw_sql(&format!("KILL {session}"))).await;
    }
    let next = timeout(lease / 2, other.acquire(&name(), waiting(lease))).await;
    let next = next.expect("free at once").expect("granted");
    until_lost(&guard).await;
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    assert!(PATIENCE > lease);
}
