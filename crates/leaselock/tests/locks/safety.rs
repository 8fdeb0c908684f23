//! Nobody holds what somebody else holds, and fences only rise.

use std::time::Duration;

use leaselock::redis::token;
use leaselock::{Fence, LockName, ReleaseOutcome};
use redis::AsyncCommands;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::testbed::{granted, name};
use super::{
    FOREIGNER, LONG_LEASE, PATIENCE, SHORT_LEASE, TokenTestbed, fence_of, until_lost, waiting,
};
use crate::support::rounds;

/// M3: an emptied server has lost the hold and the counter of the fences.
#[tokio::test]
async fn fences_rise_over_an_emptied_redis() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let mut last = Fence(0);
    for _ in 0..rounds(10) {
        let guard = granted(&process, LONG_LEASE).await;
        assert!(fence_of(&guard) > last, "{} after {last}", fence_of(&guard));
        last = fence_of(&guard);
        testbed.delete(testbed.lock_key()).await;
        testbed.delete(testbed.fence_key()).await;
        assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    }
}

/// M3: when a counter ahead of the clock expired, the next fence would be the clock's, which is lower.
#[tokio::test]
async fn a_fence_ahead_of_the_clock_is_kept_until_the_clock_has_passed_it() {
    const AHEAD: Duration = Duration::from_secs(10 * 24 * 60 * 60);
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let fence = async || {
        let guard = granted(&process, LONG_LEASE).await;
        let fence = fence_of(&guard);
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        fence
    };
    let is_kept = async || {
        let kept_ms: i64 = testbed.redis.clone().pttl(testbed.fence_key()).await.expect("PTTL");
        kept_ms > i64::try_from(AHEAD.as_millis()).expect("ten days")
    };
    let ahead_us = u64::try_from(AHEAD.as_micros()).expect("ten days");
    let raised = Fence(fence().await.get() + ahead_us);
    assert!(!is_kept().await, "an unused name leaves no key behind");
    assert_eq!(process.raise_fence(&name(), raised).await, Ok(()));
    assert!(is_kept().await);
    assert_eq!(fence().await, Fence(raised.get() + 1));
    assert!(is_kept().await);
}

/// M6: renewals that are on their way when the lock is released change nothing. The longer run
/// makes a hundred thousand of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_key_stays_gone_whatever_renewal_was_on_its_way() {
    const HOLDS: u32 = 500;
    const ROUNDS: u32 = 5;
    // Long enough that a busy machine keeps up with it.
    let lease = SHORT_LEASE * 4;
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    for _ in 0..ROUNDS * rounds(1).min(40) {
        let mut holds = tokio::task::JoinSet::new();
        for number in 0..HOLDS {
            let process = process.clone();
            let name = LockName::new(&format!("{{thing:1}}:{number}")).expect("a name");
            holds.spawn(async move {
                let guard = process.acquire(&name, waiting(lease)).await.expect("granted");
                // Around the moment of the renewal, some before it and some after.
                let spread = Duration::from_micros(u64::from(number % 100) * 300);
                sleep(lease / 3 - Duration::from_millis(15) + spread).await;
                guard.release().await
            });
        }
        let outcomes = holds.join_all().await;
        // Keys that were renewed or made anew by a late command would live for one more lease.
        let mut redis = testbed.redis.clone();
        let mut keys = redis::cmd("EXISTS");
        for number in 0..HOLDS {
            keys.arg(format!("{}lock:{{thing:1}}:{number}", testbed.prefix));
        }
        let since = Instant::now();
        while since.elapsed() < SHORT_LEASE {
            let left: u64 = keys.query_async(&mut redis).await.expect("EXISTS");
            assert_eq!(left, 0, "released keys came back");
            sleep(Duration::from_millis(20)).await;
        }
        let lost = |outcome: &&ReleaseOutcome| **outcome == ReleaseOutcome::AlreadyLost;
        let lost = outcomes.iter().filter(lost).count();
        assert_eq!(lost, 0, "releases took a live lock for lost");
    }
    let stats = process.stats().snapshot();
    assert!(stats.renewals > 100, "only {} renewals raced", stats.renewals);
    assert!(stats.renewal_batches < stats.renewals, "none went together: {stats:?}");
    assert_eq!(stats.lost, 0, "the scheduler went on with released holds");
}

/// M7: a renewal neither makes a key that is gone nor touches one that is somebody else's.
#[tokio::test]
async fn a_renewal_never_creates_or_prolongs_what_is_not_ours() {
    let testbed = TokenTestbed::new().await;
    let tasks = TaskTracker::new();
    let process = token::mutex(testbed.redis.clone(), &testbed.prefix, &tasks).expect("a prefix");

    let gone = granted(&process, SHORT_LEASE).await;
    testbed.delete(testbed.lock_key()).await;
    until_lost(&gone).await;
    assert_eq!(testbed.value().await, None);

    let taken = granted(&process, SHORT_LEASE).await;
    testbed.take_over(LONG_LEASE).await;
    let lease_left_before_ms = testbed.lease_left_ms().await;
    until_lost(&taken).await;
    assert_eq!(testbed.value().await.as_deref(), Some(FOREIGNER));
    let lease_left_ms = testbed.lease_left_ms().await;
    assert!((1..=lease_left_before_ms).contains(&lease_left_ms), "{lease_left_ms}");

    // Lost guards that are dropped leave the foreigner alone, too (M4). Their releases end before the lock's tasks.
    drop((gone, taken, process));
    tasks.close();
    timeout(PATIENCE, tasks.wait()).await.expect("all tasks end");
    assert_eq!(testbed.value().await.as_deref(), Some(FOREIGNER));
}
