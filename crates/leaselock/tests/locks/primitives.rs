//! Conformance of what is more or less than a mutex: every kind on the list that can be used as a
//! semaphore, a multi-lock, a countdown latch or a shared counter. Read/write locks are in `reading`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::{
    AcquireError, CommandError, Fence, Guard, LeasedMutex, LockName, Mutex, Primitive,
    ReleaseOutcome, redis as redis_locks,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::dying::dying;
use super::ground::{Ground, every, label, name};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, connect, fence_of, waiting};

pub async fn granted(label: &str, process: &LeasedMutex, lease: Duration) -> Guard {
    let guard = process.acquire(&name(), waiting(lease)).await;
    guard.unwrap_or_else(|error| panic!("{label}: {error}"))
}

pub async fn is_refused(process: &LeasedMutex) -> bool {
    matches!(process.acquire(&name(), at_once(LONG_LEASE)).await, Err(AcquireError::Busy))
}

pub async fn let_go(label: &str, guard: Guard) {
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
}

/// S1: never more than there are permits, and all of them are used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_there_are_never_more_holders_than_permits() {
    const PERMITS: u32 = 3;
    let ground = Ground::new();
    for kind in every(Primitive::Semaphore) {
        let label = label(kind);
        let inside = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let processes =
            [ground.semaphore(kind, PERMITS).await, ground.semaphore(kind, PERMITS).await];
        for process in &processes {
            for _ in 0..5 {
                let (process, inside) = (process.clone(), inside.clone());
                tasks.spawn(async move {
                    for _ in 0..6 {
                        let guard = granted(label, &process, LONG_LEASE).await;
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
            held.push(granted(label, &processes[number % processes.len()], LONG_LEASE).await);
        }
        for guard in held {
            let_go(label, guard).await;
        }
    }
}

/// S1: the permits of the dead come back with the end of their leases, those of the living do not.
/// A kind whose holds do not expire leaks them, and says so.
#[tokio::test]
async fn s1_permits_of_the_dead_come_back_where_holds_expire() {
    let ground = Ground::new();
    for kind in every(Primitive::Semaphore) {
        let label = label(kind);
        let (living, other) = (ground.semaphore(kind, 3).await, ground.semaphore(kind, 3).await);
        let mine = granted(label, &living, SHORT_LEASE).await;
        let ground_of_the_dead = ground.again();
        dying(async move {
            let process = ground_of_the_dead.semaphore(kind, 3).await;
            for _ in 0..2 {
                std::mem::forget(granted(label, &process, SHORT_LEASE).await);
            }
        })
        .await;
        assert!(is_refused(&other).await, "{label}");
        sleep(SHORT_LEASE * 3).await;
        if kind.expires {
            let second = granted(label, &other, LONG_LEASE).await;
            let third = granted(label, &other, LONG_LEASE).await;
            assert!(is_refused(&other).await, "{label}: a living one's permit was given away");
            let_go(label, second).await;
            let_go(label, third).await;
        } else {
            assert!(is_refused(&other).await, "{label} does not leak: its file is wrong");
        }
        assert!(!mine.is_lost(), "{label}");
        let_go(label, mine).await;
    }
}

fn names(names: &[&str]) -> Vec<LockName> {
    names.iter().map(|name| LockName::new(name).expect("a name")).collect()
}

/// X1: all or none, within a slot and over several.
#[tokio::test]
async fn x1_all_names_or_none() {
    let ground = Ground::new();
    for kind in every(Primitive::MultiLock) {
        let label = label(kind);
        let (one, two) = (ground.multi(kind).await, ground.multi(kind).await);
        for all in [names(&["{t}:a", "{t}:b", "{t}:c"]), names(&["a", "{b}:1", "c"])] {
            for taken in &all {
                let holder =
                    one.acquire_all(std::slice::from_ref(taken), at_once(LONG_LEASE)).await;
                let holder = holder.unwrap_or_else(|error| panic!("{label}: {error}"));
                let refused = two.acquire_all(&all, at_once(LONG_LEASE)).await;
                assert!(matches!(refused, Err(AcquireError::Busy)), "{label}: {refused:?}");
                for free in all.iter().filter(|name| *name != taken) {
                    let alone =
                        one.acquire_all(std::slice::from_ref(free), waiting(LONG_LEASE)).await;
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
                let refused =
                    one.acquire_all(std::slice::from_ref(taken), at_once(LONG_LEASE)).await;
                assert!(matches!(refused, Err(AcquireError::Busy)), "{label}: {refused:?}");
            }
            assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
        }
        for wrong in [Vec::new(), (0..65).flat_map(|n| names(&[&n.to_string()])).collect()] {
            let refused = one.acquire_all(&wrong, at_once(LONG_LEASE)).await;
            assert!(
                matches!(refused, Err(AcquireError::InvalidOptions(_))),
                "{label}: {refused:?}"
            );
        }
    }
}

/// X1: whoever asks in whatever order gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x1_opposite_orders_do_not_block_each_other() {
    let ground = Ground::new();
    for kind in every(Primitive::MultiLock) {
        let label = label(kind);
        let inside = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for order in [["x", "y", "z"], ["z", "y", "x"], ["y", "x", "z"], ["x", "z", "x"]] {
            let (process, inside) = (ground.multi(kind).await, inside.clone());
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
        while let Some(task) = tasks.join_next().await {
            task.expect("no task panics");
        }
    }
}

/// X1: one that dies between two slots, or whose caller goes away there, leaves nothing for longer
/// than a lease.
#[tokio::test]
async fn x1_dying_between_two_slots_blocks_for_a_lease_only() {
    let ground = Ground::new();
    for kind in every(Primitive::MultiLock).filter(|kind| kind.expires) {
        let label = label(kind);
        let (holder, other) = (ground.multi(kind).await, ground.multi(kind).await);
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
        let ground_of_the_dead = ground.again();
        dying(async move {
            let process = ground_of_the_dead.multi(kind).await;
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
}

/// The multi-lock of Redis and its plain lock are locks on the same names, with the same fences.
#[tokio::test]
async fn multi_and_token_exclude_each_other_on_redis() {
    let ground = Ground::new();
    let redis = connect(&crate::support::redis_url().await).await;
    let tasks = TaskTracker::new();
    let token = redis_locks::token::mutex(redis.clone(), &ground.prefix, &tasks).expect("made");
    let multi =
        redis_locks::multi::mutex(redis, &ground.subscriber().await, &ground.prefix, &tasks)
            .expect("made");
    let all = [name(), LockName::new("{thing:1}:read").expect("a name")];
    let mut last = Fence(0);
    for _ in 0..20 {
        let alone = granted("token", &token, LONG_LEASE).await;
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
    // One key of two goes: the whole hold is lost, and not renewed on the other key either.
    let together = multi.acquire_all(&all, waiting(SHORT_LEASE)).await.expect("granted");
    let key = format!("{}lock:{}", ground.prefix, name());
    let mut redis = connect(&crate::support::redis_url().await).await;
    let () = redis::cmd("DEL").arg(key).query_async(&mut redis).await.expect("DEL");
    timeout(PATIENCE, together.lost()).await.expect("lost fires");
    assert_eq!(together.release().await, ReleaseOutcome::AlreadyLost);
}

/// D1: waiters go on at zero, a late one at once, and there is nothing below zero.
#[tokio::test]
async fn d1_a_latch_opens_at_zero_and_stays_open() {
    let ground = Ground::new();
    for kind in every(Primitive::CountdownLatch) {
        let label = label(kind);
        let (one, two) = (ground.latch(kind).await, ground.latch(kind).await);
        let soon = || Instant::now() + PATIENCE;
        assert_eq!(
            two.wait(&name(), Instant::now() + PATIENCE).await,
            Ok(true),
            "{label}: not set"
        );
        assert_eq!(one.set(&name(), 3).await, Ok(true), "{label}");
        assert_eq!(two.set(&name(), 9).await, Ok(false), "{label}: it is running");
        let in_vain = two.wait(&name(), Instant::now() + Duration::from_millis(50)).await;
        assert_eq!(in_vain, Ok(false), "{label}");
        let waited_for = name();
        let waiter_one = one.wait(&waited_for, soon());
        let waiter_two = two.wait(&waited_for, soon());
        let counted = async {
            for left in [2, 1, 0, 0, 0] {
                assert_eq!(one.count_down(&name()).await, Ok(left), "{label}");
                assert_eq!(two.count(&name()).await, Ok(left), "{label}");
            }
        };
        let (first, second, ()) = tokio::join!(waiter_one, waiter_two, counted);
        assert_eq!((first, second), (Ok(true), Ok(true)), "{label}");
        assert_eq!(two.wait(&name(), soon()).await, Ok(true), "{label}: late");
        // It can be used again, and counted down by many at once.
        assert_eq!(two.set(&name(), 8).await, Ok(true), "{label}");
        let downs = (0..8).map(|number| if number % 2 == 0 { &one } else { &two });
        let downs = downs.map(|latch| async { latch.count_down(&name()).await });
        let mut left: Vec<u64> = futures::future::join_all(downs)
            .await
            .into_iter()
            .map(|left| left.expect("counted"))
            .collect();
        left.sort_unstable();
        assert_eq!(left, (0..8).collect::<Vec<_>>(), "{label}");
    }
}

/// No update of a counter is lost, however it is made, and what does not fit is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_lose_nothing() {
    const TASKS: i64 = 6;
    const ROUNDS: i64 = 20;
    let ground = Ground::new();
    for kind in every(Primitive::SharedCounter) {
        let label = label(kind);
        let counter = ground.counter(kind).await;
        assert_eq!(counter.get(&name()).await, Ok(0), "{label}");
        let mut tasks = JoinSet::new();
        for number in 0..TASKS {
            let counter = ground.counter(kind).await;
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    if number % 2 == 0 {
                        counter.add(&name(), 1).await.expect("added");
                        continue;
                    }
                    loop {
                        let now = counter.get(&name()).await.expect("read");
                        let set = counter.compare_and_set(&name(), now, now + 1).await;
                        if set.expect("compared") {
                            break;
                        }
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.expect("no task panics");
        }
        assert_eq!(counter.get(&name()).await, Ok(TASKS * ROUNDS), "{label}");
        assert_eq!(counter.add(&name(), -2 * TASKS * ROUNDS).await, Ok(-TASKS * ROUNDS), "{label}");
        // Beyond what a floating-point number holds exactly.
        let (high, higher) = (i64::MAX - 1, i64::MAX);
        assert_eq!(counter.compare_and_set(&name(), -TASKS * ROUNDS, high).await, Ok(true));
        assert_eq!(counter.compare_and_set(&name(), higher, 0).await, Ok(false), "{label}");
        assert_eq!(counter.add(&name(), 1).await, Ok(higher), "{label}");
        let refused = counter.add(&name(), 1).await;
        assert!(matches!(refused, Err(CommandError::Refused(_))), "{label}: {refused:?}");
        assert_eq!(counter.get(&name()).await, Ok(higher), "{label}");
    }
}
