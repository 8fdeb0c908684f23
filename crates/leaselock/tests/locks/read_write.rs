//! R1: conformance of read/write locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaselock::{Capabilities, Primitive, ReleaseOutcome};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::conformance::conformance;
use super::dying::dying;
use super::testbed::{Testbed, granted, is_refused, label, let_go, name};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, waiting, waiting_for};

conformance! {
    of: |kind| kind.primitive == Primitive::ReadWrite,
    kinds: [
        redis_read_write: "read-write" on "redis",
        etcd_read_write: "read-write" on "etcd",
        zookeeper_read_write: "read-write" on "zookeeper",
    ]
    {
        one thread: [
            r1_readers_do_not_starve_a_writer
            r1_a_dead_reader_keeps_a_writer_out_for_its_lease_only
        ],
        two threads: [
            r1_a_writer_is_always_alone
            r1_writers_do_not_starve_a_reader
        ]
    }
}

/// R1 under load: never a writer with anybody else.
async fn r1_a_writer_is_always_alone(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let (readers, writers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let shared = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let process = testbed.read_write(kind).await;
        let (readers, writers, shared) = (readers.clone(), writers.clone(), shared.clone());
        tasks.spawn(async move {
            for _ in 0..6 {
                let writes = number % 3 == 0;
                let half = if writes { &process.write } else { &process.read };
                let guard = half.acquire(&name(), waiting_for(LONG_LEASE, LONG_LEASE)).await;
                let guard = guard.unwrap_or_else(|error| panic!("{label}: {error}"));
                let mine = if writes { &writers } else { &readers };
                let before = mine.fetch_add(1, Ordering::SeqCst);
                if writes {
                    assert_eq!(before, 0, "{label}: two writers");
                    assert_eq!(readers.load(Ordering::SeqCst), 0, "{label}: among readers");
                } else {
                    shared.fetch_or(before > 0, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0, "{label}: beside a writer");
                }
                sleep(Duration::from_millis(3)).await;
                mine.fetch_sub(1, Ordering::SeqCst);
                let_go(label, guard).await;
            }
        });
    }
    tasks.join_all().await;
    assert!(shared.load(Ordering::SeqCst), "{label}: readers never shared");
}

/// R1: a reader that comes while a writer waits comes after it.
async fn r1_readers_do_not_starve_a_writer(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let (one, two) = (testbed.read_write(kind).await, testbed.read_write(kind).await);
    let mut reading = granted(&one.read, LONG_LEASE).await;
    let writer = tokio::spawn(async move {
        let guard = granted(&two.write, LONG_LEASE).await;
        guard.release().await
    });
    let since = Instant::now();
    while !is_refused(&one.read).await {
        assert!(since.elapsed() < PATIENCE, "{label}: readers pass a waiting writer");
    }
    // A stream of readers without a gap: whoever gets in leaves only after the next one.
    let next = timeout(Duration::from_millis(100), one.read.acquire(&name(), waiting(LONG_LEASE)));
    if let Ok(guard) = next.await {
        let_go(label, std::mem::replace(&mut reading, guard.expect("granted"))).await;
    }
    let_go(label, reading).await;
    let written = timeout(PATIENCE, writer).await.expect("the writer gets in");
    assert_eq!(written.expect("no panic"), ReleaseOutcome::Released, "{label}");
    let_go(label, granted(&one.read, LONG_LEASE).await).await;
}

/// R1: writers that come one after the other let a reader in between.
async fn r1_writers_do_not_starve_a_reader(kind: &'static Capabilities) {
    const WRITERS: u64 = 3;
    let testbed = Testbed::new();
    let label = label(kind);
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let process = testbed.read_write(kind).await;
        let (stop, written) = (stop.clone(), written.clone());
        writers.spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let guard = granted(&process.write, LONG_LEASE).await;
                written.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_millis(5)).await;
                let_go(label, guard).await;
            }
        });
    }
    let process = testbed.read_write(kind).await;
    for _ in 0..10 {
        let reading = timeout(PATIENCE, granted(&process.read, LONG_LEASE)).await;
        let_go(label, reading.unwrap_or_else(|_| panic!("{label}: the reader starves"))).await;
    }
    assert!(written.load(Ordering::SeqCst) > 0, "{label}: nobody wrote meanwhile");
    stop.store(true, Ordering::SeqCst);
    writers.join_all().await;
}

/// R1: a dead reader's hold ends alone, whatever the other readers renew.
async fn r1_a_dead_reader_keeps_a_writer_out_for_its_lease_only(kind: &'static Capabilities) {
    if !kind.expires {
        return;
    }
    let testbed = Testbed::new();
    let label = label(kind);
    let (living, other) = (testbed.read_write(kind).await, testbed.read_write(kind).await);
    let guard = granted(&living.read, SHORT_LEASE).await;
    let child_testbed = testbed.clone();
    dying(async move {
        let process = child_testbed.read_write(kind).await;
        std::mem::forget(granted(&process.read, SHORT_LEASE).await);
    })
    .await;
    // The living one renews several times, and its own hold only.
    sleep(SHORT_LEASE * 2).await;
    assert!(!guard.is_lost(), "{label}");
    let_go(label, guard).await;
    // The shortest lease of etcd and session of ZooKeeper take longer to end than ours.
    let options = if kind.backend == "redis" { at_once } else { waiting };
    let writer = other.write.acquire(&name(), options(LONG_LEASE)).await;
    let writer = writer.unwrap_or_else(|error| panic!("{label}: the dead one reads on: {error}"));
    let_go(label, writer).await;
}
