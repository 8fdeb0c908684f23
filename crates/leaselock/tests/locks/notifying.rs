//! Waiters of read/write locks, semaphores, multi-locks and latches on Redis are notified: all readers
//! when a writer leaves, one waiter per free permit, a waiter for several names when one is free, and
//! all waiters when a latch is at zero. Mutexes are in `handing`.

use leaselock::redis::countdown_latch::RedisLatch;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{
    Capabilities, Guard, KINDS, LeasedMutex, LockName, Primitive, ReleaseOutcome, Waiting,
};
use redis::AsyncCommands;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::dying::dying;
use super::handing::warm_up;
use super::testbed::{Testbed, granted, label, listed, name, queued};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, connect, until, waiting, waiting_for};
use crate::support::{eventually, link_to, redis_url, rounds};

async fn let_go(guard: Guard) {
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

fn notified(process: &LeasedMutex) -> u64 {
    process.stats().snapshot().handed_over_by_others
}

/// A process with both halves, whose subscriber listens.
async fn read_write(testbed: &Testbed) -> (LeasedMutex, LeasedMutex) {
    let half = testbed.read_write(listed("redis", "read-write")).await;
    let other = testbed.read_write(listed("redis", "read-write")).await;
    warm_up(&half.write, &other.write).await;
    (half.read, half.write)
}

/// A machine that stands still for a second makes a waiter find by its own look what it would have
/// been notified. That is right, too, and it is not most of the times.
fn mostly_notified(notified: u64, times: u64) {
    assert!(notified > times / 2, "notified {notified} times of {times}");
}

/// One release lets all readers in at once, and the last of them the writer behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_leaves_lets_all_readers_in_and_the_last_of_them_a_writer() {
    let testbed = Testbed::new();
    let (first, second, third) =
        (read_write(&testbed).await, read_write(&testbed).await, read_write(&testbed).await);
    let readers = [&first.0, &second.0, &third.0];
    let all_notified = || readers.iter().copied().map(notified).sum::<u64>() + notified(&second.1);
    let (before, times) = (all_notified(), u64::from(rounds(5)));
    for _ in 0..times {
        let writer = granted(&first.1, LONG_LEASE).await;
        let mut reading = Vec::new();
        for reader in readers {
            reading.push(queued(reader, LONG_LEASE).await);
        }
        let_go(writer).await;
        // Each of them keeps its guard until all have one.
        let mut guards = Vec::new();
        for reader in reading {
            guards.push(reader.await.expect("no panic"));
        }
        let writing = queued(&second.1, LONG_LEASE).await;
        for guard in guards {
            assert!(!writing.is_finished(), "a writer among readers");
            let_go(guard).await;
        }
        let_go(writing.await.expect("no panic")).await;
    }
    mostly_notified(all_notified() - before, 4 * times);
}

/// Readers wait behind a writer that waits. When it gives up they are notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let testbed = Testbed::new();
    let (first, second, third) =
        (read_write(&testbed).await, read_write(&testbed).await, read_write(&testbed).await);
    let (before, times) = (notified(&third.0), u64::from(rounds(5)));
    for _ in 0..times {
        let reading = granted(&first.0, LONG_LEASE).await;
        let (gives_up, given_up) = oneshot::channel::<()>();
        let (contended, writer) = (second.1.stats().snapshot().contended, second.1.clone());
        let writing = tokio::spawn(async move {
            tokio::select! {
                _ = given_up => true,
                _ = writer.acquire(&name(), waiting(LONG_LEASE)) => false,
            }
        });
        until("it waits", || second.1.stats().snapshot().contended > contended).await;
        let behind = queued(&third.0, LONG_LEASE).await;
        drop(gives_up);
        assert!(writing.await.expect("no panic"), "the writer did not wait for the reader");
        let_go(behind.await.expect("no panic")).await;
        let_go(reading).await;
    }
    mostly_notified(notified(&third.0) - before, times);
}

/// As many get in as permits were given back, and nobody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_are_notified_as_permits_are_free() {
    const PERMITS: u32 = 3;
    let testbed = Testbed::new();
    let (mut newly_notified, mut times) = (0, 0);
    for kind in [listed("redis", "semaphore"), listed("redis", "expiring-semaphore")] {
        let (label, holder) = (label(kind), testbed.semaphore(kind, PERMITS).await);
        let mut waiters = Vec::new();
        for _ in 0..PERMITS {
            waiters.push(testbed.semaphore(kind, PERMITS).await);
        }
        let all_notified = || waiters.iter().map(notified).sum::<u64>();
        // The first round is for their subscribers to connect.
        for round in 0..=rounds(3) {
            let before = all_notified();
            let mut held = Vec::new();
            for _ in 0..PERMITS {
                held.push(granted(&holder, LONG_LEASE).await);
            }
            let mut queue = Vec::new();
            for waiter in &waiters {
                queue.push(queued(waiter, LONG_LEASE).await);
            }
            for free in 1..=PERMITS as usize {
                let_go(held.pop().expect("held")).await;
                let inside = || queue.iter().filter(|waiter| waiter.is_finished()).count();
                until("the next gets in", || inside() >= free).await;
                assert_eq!(inside(), free, "{label}: more than there are permits");
            }
            for waiter in queue {
                let_go(waiter.await.expect("no panic")).await;
            }
            if round > 0 {
                newly_notified += all_notified() - before;
                times += u64::from(PERMITS);
            }
        }
    }
    mostly_notified(newly_notified, times);
}

/// A waiter for two names is notified that the first is free. Since the second is not, it leaves the first
/// to a waiter that wants that one alone, and gets both in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_for_several_names_is_notified_and_leaves_unusable_grants_to_others() {
    let all = u64::from(rounds(6));
    let testbed = Testbed::new();
    let kind = listed("redis", "multi");
    let alone = [testbed.multi(kind).await, testbed.multi(kind).await];
    let several = testbed.multi(kind).await;
    warm_up(alone[0].mutex(), alone[1].mutex()).await;
    warm_up(alone[0].mutex(), several.mutex()).await;
    let other = LockName::new("{thing:1}:write-too").expect("a name");
    // In this order, so that the first is the one that it waits for.
    let both = [name(), other.clone()];
    let before = notified(alone[1].mutex());
    for _ in 0..all {
        let one = alone[0].acquire_all(&both[..1], waiting(LONG_LEASE)).await.expect("granted");
        let two = alone[0].acquire_all(&both[1..], waiting(LONG_LEASE)).await.expect("granted");
        let contended = several.mutex().stats().snapshot().contended;
        let (waiter, names) = (several.clone(), both.clone());
        let waits =
            tokio::spawn(async move { waiter.acquire_all(&names, waiting(LONG_LEASE)).await });
        let has_come = || several.mutex().stats().snapshot().contended > contended;
        until("it waits for both", has_come).await;
        let behind = queued(alone[1].mutex(), LONG_LEASE).await;
        assert_eq!(one.release().await, ReleaseOutcome::Released);
        let_go(behind.await.expect("no panic")).await;
        assert_eq!(two.release().await, ReleaseOutcome::Released);
        let guard = waits.await.expect("no panic").expect("both are granted");
        assert_eq!(guard.fence(&name()), guard.fence(&other));
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    }
    // Without the message both of them would look once a second, and either might be first.
    mostly_notified(notified(alone[1].mutex()) - before, all);
}

/// At zero everybody is notified: nobody has to look again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_all_waiters_of_a_latch_are_notified_at_zero() {
    const WAITERS: u64 = 100;
    let testbed = Testbed::new();
    let url = redis_url().await;
    let proxy = link_to(&url).await;
    let client = redis::Client::open(&*url).expect("a Redis URL");
    let notified =
        Subscriber::start(client, &testbed.prefix, &TaskTracker::new()).expect("a prefix");
    let latch = RedisLatch::new(connect(proxy.url()).await, &notified, &testbed.prefix);
    let latch = std::sync::Arc::new(latch.expect("a prefix"));
    let counting = testbed.latch(listed("redis", "countdown-latch")).await;
    let queue = format!("{}countdown-latch:waiting:{}", testbed.prefix, name());
    // A machine that stands still for a second makes them look, not every time.
    for round in 0.. {
        assert_eq!(counting.set(&name(), 2).await, Ok(true));
        assert_eq!(counting.count_down(&name()).await, Ok(1));
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let latch = latch.clone();
            waiters.spawn(async move { latch.wait(&name(), Instant::now() + LONG_LEASE).await });
        }
        let queue = &queue;
        eventually("all to wait", || async move {
            let mut redis = connect(&redis_url().await).await;
            let length: u64 = redis.zcard(queue).await.expect("ZCARD");
            (length == WAITERS).then_some(())
        })
        .await;
        let looks = proxy.counted();
        assert_eq!(counting.count_down(&name()).await, Ok(0));
        while let Some(waited) = waiters.join_next().await {
            assert_eq!(waited.expect("no panic"), Ok(true));
        }
        let looks = proxy.counted() - looks;
        if looks < WAITERS / 2 {
            break;
        }
        assert!(round < 5, "{looks} looks of {WAITERS} waiters");
    }
    let mut redis = connect(&url).await;
    let left: Vec<String> = redis.keys(format!("{}*", testbed.prefix)).await.expect("KEYS");
    assert_eq!(left, Vec::<String>::new());
}

/// With a crowd in a process, each acquire costs the server an acquire, a release and little else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w7_many_waiters_cost_three_commands_for_each_acquire_of_every_notified_kind() {
    const WAITERS: u64 = 100;
    let testbed = Testbed::new();
    let is_notified = |kind: &&&Capabilities| {
        kind.backend == "redis"
            && kind.waiting == Waiting::Notified
            && kind.primitive != Primitive::CountdownLatch
    };
    for kind in KINDS.iter().filter(is_notified) {
        let label = label(kind);
        let proxy = link_to(&redis_url().await).await;
        let url = redis_url().await;
        let crowd =
            testbed.process_notified_at(kind, proxy.url(), &url).await.with_hand_over(false);
        let other = testbed.process(kind).await;
        warm_up(&crowd, &other).await;
        let holder = granted(&other, LONG_LEASE).await;
        let before = proxy.counted();
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let crowd = crowd.clone();
            waiters.spawn(async move {
                let options = waiting_for(LONG_LEASE, LONG_LEASE);
                let guard = crowd.acquire(&name(), options).await.expect("granted");
                guard.release().await
            });
        }
        let in_line = || crowd.stats().snapshot().waiting_now == WAITERS - 1;
        until("all stand in line", in_line).await;
        let_go(holder).await;
        while let Some(outcome) = waiters.join_next().await {
            assert_eq!(outcome.expect("no panic"), ReleaseOutcome::Released, "{label}");
        }
        let asked = proxy.counted() - before;
        assert!(asked <= 3 * WAITERS, "{label}: {asked} commands for {WAITERS}");
    }
}

/// W3: nobody tells of a holder that died. Each waiter's own look finds it, and from then on one
/// after the other has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w3_a_hundred_waiters_go_on_after_their_holder_died() {
    let testbed = Testbed::new();
    let mut kinds = JoinSet::new();
    let is_notified = |kind: &&&Capabilities| {
        kind.backend == "redis" && kind.waiting == Waiting::Notified && kind.expires
    };
    for kind in KINDS.iter().filter(is_notified) {
        if kind.primitive != Primitive::CountdownLatch {
            kinds.spawn(go_on_after_their_holder_died(testbed.clone(), kind));
        }
    }
    kinds.join_all().await;
}

async fn go_on_after_their_holder_died(testbed: Testbed, kind: &'static Capabilities) {
    const WAITERS: u64 = 100;
    let (label, process) = (label(kind), testbed.process(kind).await);
    // It is held from before the first of them comes until the lease ends.
    dying(async move {
        let process = testbed.process(kind).await;
        let guard = process.acquire(&name(), waiting(SHORT_LEASE * 3)).await;
        std::mem::forget(guard.expect("it is free"));
        std::mem::forget(process);
    })
    .await;
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let process = process.clone();
        waiters.spawn(async move {
            let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            guard.release().await
        });
    }
    let all = async {
        while let Some(outcome) = waiters.join_next().await {
            assert_eq!(outcome.expect("no panic"), ReleaseOutcome::Released, "{label}");
        }
    };
    timeout(PATIENCE, all).await.unwrap_or_else(|_| panic!("{label}: the dead one holds on"));
    assert!(process.stats().snapshot().contended > 0, "{label}: nobody waited");
}
