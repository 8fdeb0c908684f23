//! Conformance: what every kind on the list has to do, on every backend. A kind that cannot do
//! something says so in its capabilities, and only then it is left out.

mod reentry;

use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::{
    AcquireError, Capabilities, Fence, Fencing, Guard, LeasedMutex, LockName, RaiseFenceError,
    ReleaseOutcome,
};
use tokio::time::{Instant, sleep, timeout};

use reentry::{
    a_hold_that_was_entered_again_is_not_handed_over, only_a_reentrant_kind_lets_its_owner_in_again,
};

use super::conformance::conformance;
use super::linear::stopped_holders_leave_history_and_number_linearizable;
use super::testbed::{Testbed, can_be_held, granted_within, name, refused};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, fence_of, until, waiting, waiting_for};

conformance! {
    of: can_be_held,
    kinds: [
        redis_token: "token" on "redis",
        redis_reentrant: "reentrant" on "redis",
        redis_fair: "fair" on "redis",
        redis_plain: "plain" on "redis",
        redis_spin: "spin" on "redis",
        redis_redlock: "redlock" on "redis",
        redis_read_write: "read-write" on "redis",
        redis_expiring_semaphore: "expiring-semaphore" on "redis",
        redis_semaphore: "semaphore" on "redis",
        redis_multi: "multi" on "redis",
        redis_setnx_expire: "setnx-expire" on "redis",
        redis_setnx: "setnx" on "redis",
        redis_getset: "getset" on "redis",
        mysql_table: "table" on "mysql",
        mysql_named: "named" on "mysql",
        etcd_mutex: "mutex" on "etcd",
        etcd_read_write: "read-write" on "etcd",
        etcd_semaphore: "semaphore" on "etcd",
        zookeeper_sequential: "sequential" on "zookeeper",
        zookeeper_spin: "spin" on "zookeeper",
        zookeeper_reentrant: "reentrant" on "zookeeper",
        zookeeper_read_write: "read-write" on "zookeeper",
        zookeeper_semaphore: "semaphore" on "zookeeper",
        zookeeper_multi: "multi" on "zookeeper",
        local_token: "token" on "local",
        local_multi: "multi" on "local",
    ]
    {
        // The test stops the only thread, so that nothing is renewed.
        one thread: [
            m3_fences_rise_strictly
            m4_a_late_release_never_frees_another_ones_lock
            a_hold_that_is_not_renewed_is_lost_in_time
            a_wait_ends_at_its_deadline_and_leaves_no_trace
            processes_are_served_in_the_order_in_which_they_came
            only_a_reentrant_kind_lets_its_owner_in_again
            a_hold_that_was_entered_again_is_not_handed_over
            n1_names_do_not_alias
        ],
        two threads: [
            m1_critical_sections_of_two_processes_never_overlap
            a_guard_keeps_the_lock_beyond_its_lease
            stopped_holders_leave_history_and_number_linearizable
        ]
    }
}

fn fenced(kind: &Capabilities) -> bool {
    kind.fencing != Fencing::None
}

/// Acquires what must be free soon. On a busy machine the short commands of a short lease may time
/// out a few times.
pub async fn granted(process: &LeasedMutex, lease: Duration) -> Guard {
    granted_within(PATIENCE, process, || waiting(lease)).await
}

async fn hold_and_release(label: &str, process: &LeasedMutex) {
    let guard = granted(process, LONG_LEASE).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
}

/// M1: a counter that is read, then written a moment later, loses nothing; fences rise.
async fn m1_critical_sections_of_two_processes_never_overlap(kind: &'static Capabilities) {
    const TASKS_PER_PROCESS: u64 = 6;
    const ROUNDS: u64 = 6;
    let testbed = Testbed::new();
    let (label, first, second) = testbed.pair(kind).await;
    let (inside, counter) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let fences = Arc::new(StdMutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for process in [&first, &second] {
        for _ in 0..TASKS_PER_PROCESS {
            let (process, inside) = (process.clone(), inside.clone());
            let (counter, fences) = (counter.clone(), fences.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let options = waiting_for(LONG_LEASE, LONG_LEASE);
                    let guard = process.acquire(&name(), options).await;
                    let guard = guard.unwrap_or_else(|error| panic!("{label}: {error}"));
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{label}: two hold");
                    let read = counter.load(Ordering::SeqCst);
                    sleep(Duration::from_millis(1)).await;
                    counter.store(read + 1, Ordering::SeqCst);
                    fences.lock().expect("fences").extend(guard.fence());
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
                }
            });
        }
    }
    tasks.join_all().await;
    let rounds = 2 * TASKS_PER_PROCESS * ROUNDS;
    assert_eq!(counter.load(Ordering::SeqCst), rounds, "{label}: updates were lost");
    let fences = fences.lock().expect("fences");
    let minted = if fenced(first.capabilities()) { rounds } else { 0 };
    assert_eq!(fences.len() as u64, minted, "{label}");
    assert!(fences.is_sorted_by(|earlier, later| earlier < later), "{label}: {fences:?}");
}

/// M3: also over take-overs, and above a fence that was raised.
async fn m3_fences_rise_strictly(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    if !fenced(kind) {
        return;
    }
    let (label, first, second) = testbed.pair(kind).await;
    let mut last = Fence(0);
    for round in 0..200 {
        let process = if round % 2 == 0 { &first } else { &second };
        let taken_over = round % 100 == 50;
        let lease = if taken_over { SHORT_LEASE } else { LONG_LEASE };
        let guard = granted(process, lease).await;
        assert!(fence_of(&guard) > last, "{label}: {} after {last}", fence_of(&guard));
        last = fence_of(&guard);
        if taken_over {
            // Blocks this runtime: the lease runs out, and the next one takes over.
            std::thread::sleep(SHORT_LEASE);
            assert!(guard.is_lost(), "{label}");
        } else {
            assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        }
    }
    let raise = async |to: u64| first.raise_fence(&name(), Fence(to)).await;
    // It reaches a caller that waits already.
    let held = granted(&first, LONG_LEASE).await;
    let contended = second.stats().snapshot().contended;
    let mut waits = second.acquire(&name(), waiting(LONG_LEASE));
    tokio::select! {
        biased;
        early = &mut waits => panic!("{label}: {early:?} beside {held:?}"),
        () = until("it waits", || second.stats().snapshot().contended > contended) => {}
    }
    assert_eq!(raise(1 << 52).await, Ok(()), "{label}");
    assert_eq!(raise(5).await, Ok(()), "{label}");
    assert_eq!(held.release().await, ReleaseOutcome::Released, "{label}");
    let guard = waits.await.expect("granted");
    // A backend may leave some out, as etcd does, whose revisions count what others do, too.
    let raised = (1 << 52) + 1..(1 << 52) + 1_000_000;
    assert!(raised.contains(&fence_of(&guard).get()), "{label}: {}", fence_of(&guard));
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
    // The end of what can be minted is an error and not a repeated fence.
    assert_eq!(raise(Fence::MAX.get() - 1).await, Ok(()), "{label}");
    match second.acquire(&name(), waiting(LONG_LEASE)).await {
        Ok(guard) => {
            assert_eq!(fence_of(&guard), Fence::MAX, "{label}");
            assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        }
        // It was left out, too.
        Err(AcquireError::Unavailable(_)) => {}
        Err(error) => panic!("{label}: {error}"),
    }
    let refused = second.acquire(&name(), waiting(LONG_LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{label}: {refused:?}");
    assert_eq!(raise(1 << 53).await, Err(RaiseFenceError::TooHigh(Fence(1 << 53))));
}

/// M4, M2: a holder that is paused beyond its lease knows it at its first look, and its release
/// leaves the next holder alone.
async fn m4_a_late_release_never_frees_another_ones_lock(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let leased = |kind: &Capabilities| kind.expires && kind.lost_signal;
    if !leased(kind) {
        return;
    }
    let (label, slow, quick) = testbed.pair(kind).await;
    let late = granted(&slow, SHORT_LEASE).await;
    std::thread::sleep(SHORT_LEASE + SHORT_LEASE / 10);
    assert!(late.is_lost(), "{label}");
    let holder = quick.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    if fenced(quick.capabilities()) {
        assert!(fence_of(&holder) > fence_of(&late), "{label}");
    }
    assert_eq!(late.release().await, ReleaseOutcome::AlreadyLost, "{label}");
    refused(&slow).await;
    assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
    hold_and_release(label, &slow).await;
}

/// The holder is renewed for as long as it works; nobody else gets in meanwhile.
async fn a_guard_keeps_the_lock_beyond_its_lease(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    if !kind.renewed && kind.expires {
        return;
    }
    let (label, holder, other) = testbed.pair(kind).await;
    // A machine that stands still for a lease loses the lock rightly; not every time.
    for _ in 0..5 {
        if keeps_the_lock(label, &holder, &other).await {
            return hold_and_release(label, &other).await;
        }
    }
    panic!("{label}: the hold was lost every time");
}

/// Whether a hold lasts twice its lease. Nobody else gets in before it is lost.
async fn keeps_the_lock(label: &str, holder: &LeasedMutex, other: &LeasedMutex) -> bool {
    // Long enough for the renewals of all kinds at once on a busy machine.
    const LEASE: Duration = Duration::from_secs(1);
    let guard = granted(holder, LEASE).await;
    let since = Instant::now();
    while since.elapsed() < LEASE * 2 {
        match other.acquire(&name(), at_once(LEASE)).await {
            Err(AcquireError::Busy | AcquireError::Unavailable(_)) => {
                sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{label}: {error}"),
            Ok(_) => {
                assert!(guard.is_lost(), "{label}: two hold");
                return false;
            }
        }
    }
    guard.release().await == ReleaseOutcome::Released
}

/// A kind that is not renewed tells that its hold has ended before anyone else can have it.
async fn a_hold_that_is_not_renewed_is_lost_in_time(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let unrenewed = |kind: &Capabilities| kind.expires && kind.lost_signal && !kind.renewed;
    if !unrenewed(kind) {
        return;
    }
    let (label, holder, other) = testbed.pair(kind).await;
    let guard = granted(&holder, SHORT_LEASE).await;
    let next = tokio::spawn(async move {
        let next = other.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let granted_at = Instant::now();
        let _ = next.release().await;
        granted_at
    });
    timeout(PATIENCE, guard.lost().cancelled()).await.expect("lost fires");
    let lost_at = Instant::now();
    assert!(lost_at < next.await.expect("the other process"), "{label}");
}

async fn a_wait_ends_at_its_deadline_and_leaves_no_trace(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let (label, process, other) = testbed.pair(kind).await;
    let holder = other.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let options = waiting_for(LONG_LEASE, Duration::from_millis(100));
    let first = process.acquire(&name(), options);
    let second = process.acquire(&name(), options);
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first, Err(AcquireError::TimedOut)), "{label}: {first:?}");
    assert!(matches!(second, Err(AcquireError::TimedOut)), "{label}: {second:?}");
    assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
    hold_and_release(label, &other).await;
    hold_and_release(label, &process).await;
}

async fn processes_are_served_in_the_order_in_which_they_came(kind: &'static Capabilities) {
    const PROCESSES: usize = 6;
    let testbed = Testbed::new();
    if !kind.fair_between_processes {
        return;
    }
    let (label, first, _) = testbed.pair(kind).await;
    let holder = first.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let served = Arc::new(StdMutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for number in 0..PROCESSES {
        let (process, served) = (testbed.process(kind).await, served.clone());
        let waiter = process.clone();
        waiters.spawn(async move {
            let guard = waiter.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            served.lock().expect("served").push(number);
            guard.release().await
        });
        // It has been refused once, so it has its place.
        until("it waits", || process.stats().snapshot().contended == 1).await;
    }
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    waiters.join_all().await;
    let in_order: Vec<usize> = (0..PROCESSES).collect();
    assert_eq!(*served.lock().expect("served"), in_order, "{label}");
}

/// N1: names that differ in case, in their last character or in their tag are different locks, and so are those that would
/// be one path.
async fn n1_names_do_not_alias(kind: &'static Capabilities) {
    let long = "x".repeat(LockName::LEN_MAX_BYTES - 1);
    let [y, z] = ["y", "z"].map(|last| format!("{long}{last}"));
    let names = [
        "a", "A", "{a}", "{A}", "a:b", "{a}:b", "a/b", "a%2Fb", "a%252Fb", ".", "..", "%2E", ".a",
        &y, &z,
    ];
    let testbed = Testbed::new();
    let (label, first, second) = testbed.pair(kind).await;
    let mut guards = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let name = LockName::new(name).expect("a name");
        let process = if number % 2 == 0 { &first } else { &second };
        let guard = process.acquire(&name, at_once(LONG_LEASE)).await;
        guards.push(guard.unwrap_or_else(|error| panic!("{label}: {name} is {error}")));
    }
    for guard in guards {
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
    }
}
