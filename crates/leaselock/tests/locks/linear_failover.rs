//! Histories of locks over a failover of Redis, judged by the linearizability checker: see
//! [`histories`](super::histories).
//!
//! | failover | history of the lock | number under the lock |
//! |---|---|---|
//! | planned: every kind | linearizable as it stands | linearizable |
//! | the primary dies: kinds with a fence | linearizable, if holds of that time may have ended | linearizable |
//! | its replica had not received the hold | not linearizable if no hold may end | linearizable with a fence, and not without one |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaselock::{Capabilities, Fencing};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::failovers::{
    KEPT_LEASE, LEASE, RECOVERY_MAX, cut_off, fail_over, kill_the_owner, lose_the_primary,
    owner_and_heir, replace_the_primary,
};
use super::fenced_number::Number;
use super::histories::{Added, CountSpec, LockSpec};
use super::linear::{Histories, Process};
use super::testbed::{Testbed, listed};
use crate::support::{own_cluster, own_sentinels};

/// The kinds on one Redis that exclude everybody else, used with one permit where they have several.
const KINDS: [&str; 9] = [
    "token",
    "reentrant",
    "fair",
    "spin",
    "read-write",
    "multi",
    "plain",
    "semaphore",
    "expiring-semaphore",
];
/// Processes that contend for the name of each kind.
const PROCESSES: usize = 3;
/// The pause of a process between two holds: the histories stay short enough to be checked.
const PAUSE: Duration = Duration::from_millis(40);
/// A lease whose first renewal comes after every failover.
const NEVER_RENEWED: Duration = Duration::from_secs(120);
/// Additions of each kind before the failover, and after it.
const ADDITIONS: usize = 6;

/// One kind with its histories.
struct Contended {
    kind: &'static Capabilities,
    histories: Histories,
    /// Keeps the database of the number.
    _testbed: Testbed,
}

/// Lets processes add under each kind at `url` while `fault` happens. Answers the histories, and the time
/// of the fault.
async fn contend(
    url: &str,
    (kinds, lease): (&[&str], Duration),
    fault: impl Future<Output = ()>,
) -> (Vec<Contended>, (Instant, Instant)) {
    let over = Arc::new(AtomicBool::new(false));
    let (mut contended, mut tasks) = (Vec::new(), JoinSet::new());
    for kind in kinds {
        let (kind, testbed) = (listed("redis", kind), Testbed::new());
        Number::make(&testbed).await;
        let histories = Histories::default();
        for _ in 0..PROCESSES {
            let lock = testbed.process_behind(kind, url).await;
            let number = Number::open(&testbed).await;
            let mut process = Process { lock, number, histories: histories.clone(), lease };
            let over = Arc::clone(&over);
            tasks.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    process.add(false).await;
                    sleep(PAUSE).await;
                }
            });
        }
        contended.push(Contended { kind, histories, _testbed: testbed });
    }
    let all_add = async || {
        let since = Instant::now();
        for one in &contended {
            let added = || one.histories.numbers.count(|_| true);
            let enough = added() + ADDITIONS;
            while added() < enough {
                let kind = one.kind.kind;
                assert!(since.elapsed() < RECOVERY_MAX, "{kind}: nobody gets the name again");
                sleep(PAUSE).await;
            }
        }
    };
    all_add().await;
    let begin = Instant::now();
    fault.await;
    let end = Instant::now();
    all_add().await;
    over.store(true, Ordering::SeqCst);
    tasks.join_all().await;
    (contended, (begin, end))
}

/// Nothing is allowed for the failover: each history is that of a lock that was never disturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_stays_linearizable_over_a_planned_failover() {
    let cluster = own_cluster(1).await;
    let fault = fail_over(&cluster);
    let (contended, _) = contend(&cluster.url(), (&KINDS, KEPT_LEASE), fault).await;
    for one in contended {
        one.histories.check(one.kind.kind);
    }
}

fn fenced() -> Vec<&'static str> {
    let is_fenced = |kind: &&str| listed("redis", kind).fencing != Fencing::None;
    KINDS.into_iter().filter(is_fenced).collect()
}

/// Judges the histories over the death of a primary: holds of that time may have ended.
fn check_fenced(contended: Vec<Contended>, (begin, end): (Instant, Instant)) {
    assert_eq!(contended.len(), 6, "the kinds with fences");
    for one in contended {
        one.histories.ended_by_fault(begin, end);
        one.histories.check(one.kind.kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_with_fences_stay_linearizable_while_a_primary_of_the_cluster_dies() {
    let cluster = own_cluster(1).await;
    let fault = kill_the_owner(&cluster);
    let (contended, times) = contend(&cluster.url(), (&fenced(), LEASE), fault).await;
    check_fenced(contended, times);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_with_fences_stay_linearizable_while_sentinels_replace_the_primary() {
    let group = own_sentinels().await;
    let fault = replace_the_primary(&group);
    let (contended, times) = contend(&group.url(), (&fenced(), LEASE), fault).await;
    check_fenced(contended, times);
}

/// A holder whose hold the new primary has not received, and a second holder beside it, of a kind whose
/// holders hear nothing before their next renewal. The first one has
/// read before, and writes after the second one has. Answers the histories, and whether two held at once.
async fn forgotten(kind: &'static Capabilities) -> (Histories, bool) {
    let cluster = own_cluster(1).await;
    let (owner, heir) = owner_and_heir(&cluster).await;
    let (testbed, histories) = (Testbed::new(), Histories::default());
    Number::make(&testbed).await;
    let process = async || Process {
        lock: testbed.process_behind(kind, &cluster.url()).await,
        number: Number::open(&testbed).await,
        histories: histories.clone(),
        lease: NEVER_RENEWED,
    };
    let (mut first, mut second) = (process().await, process().await);
    cut_off(&cluster, owner, heir).await;
    let (guard, hold, granted) = first.granted().await.expect("granted");
    let (called, fence) = (Instant::now(), guard.fence().map_or(0, |fence| fence.get()));
    let read = first.number.read(fence).await.expect("nobody else has held");
    lose_the_primary(&cluster, owner, heir).await;
    let since = Instant::now();
    while histories.numbers.count(|_| true) == 0 {
        assert!(since.elapsed() < RECOVERY_MAX, "nobody gets the name again");
        second.add(false).await;
    }
    let two_held = !guard.is_lost();
    if first.number.write(read + 1, fence).await {
        histories.numbers.done(Added { read }, called);
    }
    first.release(guard, hold, granted).await;
    (histories, two_held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_a_failover_forgot_is_caught_and_its_write_is_refused_by_the_fence() {
    let (histories, two_held) = forgotten(listed("redis", "spin")).await;
    assert!(two_held, "the first holder believed in its lease");
    assert!(!histories.locks.is_linearizable::<LockSpec>(), "two held: {:#?}", histories.locks);
    assert_eq!(histories.numbers.count(|_| true), 1, "the late write was refused");
    assert!(histories.numbers.is_linearizable::<CountSpec>(), "{:#?}", histories.numbers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_a_failover_forgot_is_caught_by_its_write_where_there_is_no_fence() {
    let (histories, two_held) = forgotten(listed("redis", "plain")).await;
    assert!(two_held, "the first holder believed in its lease");
    assert!(!histories.locks.is_linearizable::<LockSpec>(), "two held: {:#?}", histories.locks);
    assert_eq!(histories.numbers.count(|_| true), 2, "both have written");
    assert!(!histories.numbers.is_linearizable::<CountSpec>(), "{:#?}", histories.numbers);
}
