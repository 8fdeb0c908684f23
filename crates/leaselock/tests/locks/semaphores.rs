//! Conformance of semaphores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::{Capabilities, Primitive};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::conformance::conformance;
use super::dying::dying;
use super::testbed::{Testbed, granted, is_refused, label, let_go};
use super::{LONG_LEASE, SHORT_LEASE};

conformance! {
    of: |kind| kind.primitive == Primitive::Semaphore,
    kinds: [
        redis_semaphore: "semaphore" on "redis",
        redis_expiring_semaphore: "expiring-semaphore" on "redis",
        etcd_semaphore: "semaphore" on "etcd",
        zookeeper_semaphore: "semaphore" on "zookeeper",
    ]
    {
        one thread: [
            s1_permits_of_the_dead_come_back_where_holds_expire
        ],
        two threads: [
            s1_there_are_never_more_holders_than_permits
        ]
    }
}

/// S1: never more than there are permits, and all of them are used.
async fn s1_there_are_never_more_holders_than_permits(kind: &'static Capabilities) {
    const PERMITS: u32 = 3;
    let testbed = Testbed::new();
    let label = label(kind);
    let inside = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let processes =
        [testbed.semaphore(kind, PERMITS).await, testbed.semaphore(kind, PERMITS).await];
    for process in &processes {
        for _ in 0..5 {
            let (process, inside) = (process.clone(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..6 {
                    let guard = granted(&process, LONG_LEASE).await;
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= u64::from(PERMITS), "{label}: {now} hold");
                    sleep(Duration::from_millis(5)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    let_go(label, guard).await;
                }
            });
        }
    }
    tasks.join_all().await;
    let mut held = Vec::new();
    for number in 0..PERMITS as usize {
        held.push(granted(&processes[number % processes.len()], LONG_LEASE).await);
    }
    for guard in held {
        let_go(label, guard).await;
    }
}

/// S1: the permits of the dead come back with the end of their leases, those of the living do not.
/// A kind whose holds do not expire leaks them, and says so.
async fn s1_permits_of_the_dead_come_back_where_holds_expire(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let (living, other) = (testbed.semaphore(kind, 3).await, testbed.semaphore(kind, 3).await);
    let mine = granted(&living, SHORT_LEASE).await;
    let child_testbed = testbed.clone();
    dying(async move {
        let process = child_testbed.semaphore(kind, 3).await;
        for _ in 0..2 {
            std::mem::forget(granted(&process, SHORT_LEASE).await);
        }
    })
    .await;
    assert!(is_refused(&other).await, "{label}");
    sleep(SHORT_LEASE * 3).await;
    if kind.expires {
        let second = granted(&other, LONG_LEASE).await;
        let third = granted(&other, LONG_LEASE).await;
        assert!(is_refused(&other).await, "{label}: a living one's permit was given away");
        let_go(label, second).await;
        let_go(label, third).await;
    } else {
        assert!(is_refused(&other).await, "{label} does not leak: its file is wrong");
    }
    assert!(!mine.is_lost(), "{label}");
    let_go(label, mine).await;
}
