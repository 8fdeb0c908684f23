//! A lock that is handed on: inside a process without the server, and between processes by the
//! release itself.

use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use faulty_link::Fault;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    AcquireOptions, Capabilities, HAND_OVERS_CONTENDED_MAX, HAND_OVERS_MAX, LeasedMutex,
    ReleaseOutcome, Waiting, redis as redis_locks,
};
use redis::AsyncCommands;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::testbed::{Testbed, can_be_held, name, queued};
use super::{LONG_LEASE, PATIENCE, TokenTestbed, connect, fence_of, until, waiting, waiting_for};
use crate::support::{link_to, redis_url};

fn hands_over(kind: &Capabilities) -> bool {
    kind.hands_over
}

fn notified(kind: &Capabilities) -> bool {
    kind.waiting == Waiting::Notified && kind.backend == "redis"
}

/// Waits for as long as a test may take.
fn patiently() -> AcquireOptions {
    waiting_for(LONG_LEASE, LONG_LEASE)
}

/// Waiters that stand in line while somebody holds, and note their fences when it is their turn.
async fn crowd(
    process: &LeasedMutex,
    waiters: u64,
) -> (tokio::task::JoinSet<()>, Arc<StdMutex<Vec<u64>>>) {
    let fences = Arc::new(StdMutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..waiters {
        let (process, fences) = (process.clone(), fences.clone());
        tasks.spawn(async move {
            let guard = process.acquire(&name(), patiently()).await.expect("granted");
            assert!(!guard.is_lost());
            fences.lock().expect("fences").push(fence_of(&guard).get());
            assert_eq!(guard.release().await, ReleaseOutcome::Released);
        });
    }
    until("all stand in line", || process.stats().snapshot().waiting_now == waiters).await;
    (tasks, fences)
}

/// Every holder has a higher fence than the one before (M3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_asks_the_server_nothing_and_can_be_switched_off() {
    const WAITERS: u64 = 100;
    let testbed = Testbed::new();
    let redis_kinds = |kind: &Capabilities| kind.hands_over && kind.backend == "redis";
    for kind in leaselock::KINDS.iter().filter(|kind| redis_kinds(kind)) {
        let proxy = link_to(&redis_url().await).await;
        let asked = async |process: &LeasedMutex| {
            let holder = process.acquire(&name(), patiently()).await.expect("granted");
            let (tasks, fences) = crowd(process, WAITERS).await;
            let before = proxy.counted();
            assert_eq!(holder.release().await, ReleaseOutcome::Released);
            tasks.join_all().await;
            let fences = fences.lock().expect("fences");
            let rise = fences.is_sorted_by(|earlier, later| earlier < later);
            assert!(rise, "{}: {fences:?}", kind.kind);
            proxy.counted() - before
        };
        let process = testbed.process_behind(kind, proxy.url()).await;
        let handed = asked(&process).await;
        // Released and acquired a few times; scripts that the server did not know are sent twice.
        assert!(handed < WAITERS / 4, "{}: {handed} commands", kind.kind);
        let process = process.with_hand_over(false);
        let before = process.stats().snapshot().handed_over;
        let asked = asked(&process).await;
        assert!(asked >= 2 * WAITERS, "{}: {asked} commands", kind.kind);
        assert_eq!(process.stats().snapshot().handed_over, before, "{}", kind.kind);
    }
}

/// W6: a crowd in one process does not keep the lock from another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w6_a_local_flood_lets_another_process_through() {
    let testbed = Testbed::new();
    for (label, flood, other) in testbed.pairs(|kind| hands_over(kind) && notified(kind)).await {
        let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..32 {
            let (flood, stop, served) = (flood.clone(), stop.clone(), served.clone());
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let guard = flood.acquire(&name(), patiently()).await.expect("granted");
                    sleep(Duration::from_millis(1)).await;
                    served.fetch_add(1, Ordering::Relaxed);
                    let _ = guard.release().await;
                }
            });
        }
        until("the lock is passed on", || flood.stats().snapshot().handed_over > 64).await;
        for _ in 0..3 {
            let contended = other.stats().snapshot().contended;
            let refused_at = async {
                until("refused", || other.stats().snapshot().contended > contended).await;
                served.load(Ordering::Relaxed)
            };
            let acquire = async {
                let guard = other.acquire(&name(), patiently()).await.expect("granted");
                (guard, served.load(Ordering::Relaxed))
            };
            // Granted at once also happens: between two holds.
            let (refused_at, (guard, granted_at)) = tokio::join!(
                async { timeout(PATIENCE / 5, refused_at).await.unwrap_or(u64::MAX) },
                acquire
            );
            let overtaken = granted_at.saturating_sub(refused_at);
            let most = u64::from(HAND_OVERS_MAX / 4 + HAND_OVERS_CONTENDED_MAX);
            assert!(overtaken <= most, "{label}: overtaken {overtaken} times");
            assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        }
        stop.store(true, Ordering::Relaxed);
        tasks.join_all().await;
    }
}

/// Makes both processes' subscribers connect.
pub async fn warm_up(first: &LeasedMutex, second: &LeasedMutex) {
    for (holder, waiter) in [(first, second), (second, first)] {
        let since = Instant::now();
        while waiter.stats().snapshot().handed_over_by_others == 0 {
            assert!(since.elapsed() < PATIENCE, "nothing is ever handed on");
            let guard = holder.acquire(&name(), patiently()).await.expect("granted");
            let contended = waiter.stats().snapshot().contended;
            let (next, ()) = tokio::join!(waiter.acquire(&name(), patiently()), async {
                until("it waits", || waiter.stats().snapshot().contended > contended).await;
                sleep(Duration::from_millis(20)).await;
                let _ = guard.release().await;
            });
            let _ = next.expect("granted").release().await;
        }
    }
}

/// W1: the release comes after a waiter was refused and before it listens. The look after it has
/// begun to listen finds it, long before the first look of those that are notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w1_a_release_between_a_refusal_and_the_watch_is_seen_at_once() {
    const FIRST_LOOK: Duration = Duration::from_millis(800);
    let (testbed, url) = (Testbed::new(), redis_url().await);
    let (mut at_once, mut kinds) = (0, 0);
    for kind in leaselock::KINDS.iter().filter(|kind| notified(kind) && can_be_held(kind)) {
        let proxy = link_to(&url).await;
        proxy.set(Fault::Stall);
        let holder = testbed.process(kind).await;
        let waiter = testbed.process_notified_at(kind, &url, proxy.url()).await;
        let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let next = queued(&waiter, LONG_LEASE).await;
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        let since = Instant::now();
        proxy.mend();
        let next = timeout(PATIENCE, next).await.expect("granted at last").expect("no panic");
        at_once += u32::from(since.elapsed() < FIRST_LOOK);
        kinds += 1;
        assert_eq!(next.release().await, ReleaseOutcome::Released);
    }
    // A machine that stands still for a second makes one of them late.
    assert!(kinds > 0 && at_once > kinds / 2, "{at_once} of {kinds} at once");
}

/// W2: without its wake-ups a waiter looks by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w2_a_waiter_whose_subscriber_is_cut_off_still_gets_the_lock() {
    let testbed = TokenTestbed::new().await;
    let url = redis_url().await;
    let proxy = link_to(&url).await;
    let tasks = TaskTracker::new();
    let client = redis::Client::open(proxy.url()).expect("a Redis URL");
    let subscriber = Subscriber::start(client, &testbed.prefix, &tasks).expect("a prefix");
    let process = |connection| {
        redis_locks::token::notified(connection, &subscriber, &testbed.prefix, &tasks)
            .expect("a prefix")
    };
    let waiter = process(connect(&url).await);
    let holder = testbed.process().await;
    for fault in [Fault::Refuse, Fault::Stall] {
        proxy.mend();
        let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let next = queued(&waiter, LONG_LEASE).await;
        let queue = format!("{}queue:{}", testbed.prefix, name());
        let since = Instant::now();
        while !testbed.redis.clone().exists::<_, bool>(&queue).await.expect("EXISTS") {
            assert!(since.elapsed() < PATIENCE, "it is not in the queue");
            sleep(Duration::from_millis(1)).await;
        }
        proxy.set(fault);
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
        let next = timeout(PATIENCE, next).await.expect("within the fallback").expect("no panic");
        assert_eq!(next.release().await, ReleaseOutcome::Released);
    }
}
