//! Conformance of multi-locks: one hold on several names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::{
    AcquireError, Capabilities, Fence, LockName, Primitive, ReleaseOutcome, redis as redis_locks,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::conformance::conformance;
use super::dying::dying;
use super::testbed::{Testbed, granted, is_refused, label, let_go, name};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, connect, fence_of, waiting};

conformance! {
    of: |kind| kind.primitive == Primitive::MultiLock,
    kinds: [
        redis_multi: "multi" on "redis",
        zookeeper_multi: "multi" on "zookeeper",
        local_multi: "multi" on "local",
    ]
    {
        one thread: [
            x1_all_names_or_none
            x1_dying_between_two_slots_blocks_for_a_lease_only
        ],
        two threads: [
            x1_opposite_orders_do_not_block_each_other
        ]
    }
}

/// X1: all or none, within a slot and over several.
async fn x1_all_names_or_none(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let (one, two) = (testbed.multi(kind).await, testbed.multi(kind).await);
    for all in [names(&["{t}:a", "{t}:b", "{t}:c"]), names(&["a", "{b}:1", "c"])] {
        for taken in &all {
            let holder = one.acquire_all(std::slice::from_ref(taken), at_once(LONG_LEASE)).await;
            let holder = holder.unwrap_or_else(|error| panic!("{label}: {error}"));
            let refused = two.acquire_all(&all, at_once(LONG_LEASE)).await;
            assert!(matches!(refused, Err(AcquireError::Busy)), "{label}: {refused:?}");
            for free in all.iter().filter(|name| *name != taken) {
                let alone = one.acquire_all(std::slice::from_ref(free), waiting(LONG_LEASE)).await;
                let alone = alone.unwrap_or_else(|_| panic!("{label}: {free} was left behind"));
                assert_eq!(alone.release().await, ReleaseOutcome::Released, "{label}");
            }
            assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
        }
        let holder = two.acquire_all(&all, waiting(SHORT_LEASE)).await.expect("all are free");
        sleep(SHORT_LEASE * 2).await;
        assert!(!holder.is_lost(), "{label}: not all of them are renewed");
        for taken in &all {
            assert!(holder.fence(taken).is_some(), "{label}");
            let refused = one.acquire_all(std::slice::from_ref(taken), at_once(LONG_LEASE)).await;
            assert!(matches!(refused, Err(AcquireError::Busy)), "{label}: {refused:?}");
        }
        assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
    }
    for wrong in [Vec::new(), (0..65).flat_map(|n| names(&[&n.to_string()])).collect()] {
        let refused = one.acquire_all(&wrong, at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::InvalidOptions(_))), "{label}: {refused:?}");
    }
}

/// X1: whoever asks in whatever order gets its turn.
async fn x1_opposite_orders_do_not_block_each_other(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let inside = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for order in [["x", "y", "z"], ["z", "y", "x"], ["y", "x", "z"], ["x", "z", "x"]] {
        let (process, inside) = (testbed.multi(kind).await, inside.clone());
        tasks.spawn(async move {
            for _ in 0..8 {
                let all = process.acquire_all(&names(&order), waiting(LONG_LEASE)).await;
                let all = all.unwrap_or_else(|error| panic!("{label}: {error}"));
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{label}: two hold");
                sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(all.release().await, ReleaseOutcome::Released, "{label}");
            }
        });
    }
    tasks.join_all().await;
}

/// X1: one that dies between two slots, or whose caller goes away there, leaves nothing for longer
/// than a lease.
async fn x1_dying_between_two_slots_blocks_for_a_lease_only(kind: &'static Capabilities) {
    if !kind.expires {
        return;
    }
    let testbed = Testbed::new();
    let label = label(kind);
    let (holder, other) = (testbed.multi(kind).await, testbed.multi(kind).await);
    let second = holder.acquire_all(&names(&["y"]), at_once(LONG_LEASE)).await;
    let second = second.expect("it is free");
    let first_is_taken = async || {
        let answer = other.acquire_all(&names(&["x"]), at_once(LONG_LEASE)).await;
        matches!(answer, Err(AcquireError::Busy))
    };
    // The caller goes away.
    let both = names(&["y", "x"]);
    let gone = holder.acquire_all(&both, waiting(LONG_LEASE));
    assert!(timeout(Duration::from_millis(200), gone).await.is_err(), "{label}");
    let again = other.acquire_all(&names(&["x"]), waiting(LONG_LEASE)).await;
    assert_eq!(again.expect("given back").release().await, ReleaseOutcome::Released);
    // The process dies.
    let child_testbed = testbed.clone();
    dying(async move {
        let process = child_testbed.multi(kind).await;
        let both = names(&["y", "x"]);
        let waits = process.acquire_all(&both, waiting(SHORT_LEASE));
        assert!(timeout(SHORT_LEASE, waits).await.is_err(), "{label}");
        std::mem::forget(process);
    })
    .await;
    let since = Instant::now();
    while first_is_taken().await {
        assert!(since.elapsed() < SHORT_LEASE * 3, "{label}: the dead one holds on");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(!second.is_lost(), "{label}");
    assert_eq!(second.release().await, ReleaseOutcome::Released, "{label}");
}

/// The multi-lock of Redis and its plain lock are locks on the same names, with the same fences.
#[tokio::test]
async fn multi_and_token_exclude_each_other_on_redis() {
    let testbed = Testbed::new();
    let redis = connect(&crate::support::redis_url().await).await;
    let tasks = TaskTracker::new();
    let token = redis_locks::token::mutex(redis.clone(), &testbed.prefix, &tasks).expect("made");
    let multi =
        redis_locks::multi::mutex(redis, &testbed.subscriber().await, &testbed.prefix, &tasks)
            .expect("made");
    let all = [name(), LockName::new("{thing:1}:read").expect("a name")];
    let mut last = Fence(0);
    for _ in 0..20 {
        let alone = granted(&token, LONG_LEASE).await;
        assert!(fence_of(&alone) > last);
        last = fence_of(&alone);
        let refused = multi.acquire_all(&all, at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{refused:?}");
        let_go("token", alone).await;
        let together = multi.acquire_all(&all, waiting(LONG_LEASE)).await.expect("granted");
        for name in &all {
            let fence = together.fence(name).expect("a fence");
            assert!(fence > last, "{fence} after {last}");
        }
        last = together.fence(&all[0]).expect("a fence");
        assert!(is_refused(&token).await);
        assert_eq!(together.release().await, ReleaseOutcome::Released);
    }
    // One key of two goes: the whole hold is lost, and its release frees the other key long before the lease ends.
    let together = multi.acquire_all(&all, waiting(LONG_LEASE)).await.expect("granted");
    let key = format!("{}lock:{}", testbed.prefix, name());
    let mut redis = connect(&crate::support::redis_url().await).await;
    let () = redis::cmd("DEL").arg(key).query_async(&mut redis).await.expect("DEL");
    timeout(PATIENCE, together.lost()).await.expect("lost fires");
    assert_eq!(together.release().await, ReleaseOutcome::AlreadyLost);
    let other = token.acquire(&all[1], waiting(LONG_LEASE)).await.expect("the rest is free");
    let_go("token", other).await;
}

fn names(names: &[&str]) -> Vec<LockName> {
    names.iter().map(|name| LockName::new(name).expect("a name")).collect()
}
