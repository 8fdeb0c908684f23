//! Bad links to Redis, for every kind that notices the loss of its hold: an answer that is
//! lost, a link that swallows everything, and one that is slow.

use std::time::Duration;

use faulty_link::{Fault, FaultyLink, Trap};
use leaselock::{AcquireError, Capabilities, KINDS, LeasedMutex, ReleaseOutcome};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::testbed::{Testbed, granted, label, name, refused};
use super::{LONG_LEASE, PATIENCE, at_once, until, waiting};
use crate::support::{link_to, redis_url};

/// Long enough for a busy machine to be in time, short enough for a test.
const LEASE: Duration = Duration::from_secs(3);

/// What goes over the bad link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// Everything that a process says and hears.
    All,
    /// Commands and their answers only: a wake-up may be the next thing that comes.
    Commands,
}

/// One kind with a process behind a link of its own, and another process.
struct Pair {
    label: &'static str,
    proxy: FaultyLink,
    process: LeasedMutex,
    other: LeasedMutex,
}

/// The kinds with one link each that are renewed. `redlock` has five links, and a page of tests of its
/// own. `setnx` and `getset` have no owner, so they cannot know their own hold again.
async fn pairs(link: Carries) -> Vec<Pair> {
    let url = &*redis_url().await;
    let testbed = Testbed::new();
    let applies = |kind: &Capabilities| {
        let notices_a_loss = kind.backend == "redis" && kind.lost_signal && kind.renewed;
        notices_a_loss && kind.kind != "redlock"
    };
    let mut pairs = Vec::new();
    for kind in KINDS.iter().filter(|kind| applies(kind)) {
        let proxy = link_to(url).await;
        let notified_url = if link == Carries::All { proxy.url() } else { url };
        let process = testbed.process_notified_at(kind, proxy.url(), notified_url).await;
        let (label, other) = (label(kind), testbed.process(kind).await);
        pairs.push(Pair { label, proxy, process, other });
    }
    assert!(pairs.len() > 1, "only {} kinds", pairs.len());
    pairs
}

/// Runs the same for all kinds side by side, since most of it is waiting.
async fn with_each<F: Future<Output = ()> + Send + 'static>(
    link: Carries,
    run: impl Fn(Pair) -> F,
) {
    let mut kinds = JoinSet::new();
    for pair in pairs(link).await {
        kinds.spawn(run(pair));
    }
    kinds.join_all().await;
}

/// M5: one hold, which one release frees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m5_an_acquire_whose_answer_was_lost_is_one_hold() {
    with_each(Carries::Commands, |Pair { label, proxy, process, other }| async move {
        // Once before, so that the first answer lost is the acquire's.
        let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        proxy.trap(Trap::at_answer());
        let guard = granted(&process, LONG_LEASE).await;
        timeout(PATIENCE, proxy.until_sprung()).await.expect("an answer was lost");
        assert!(!guard.is_lost(), "{label}");
        refused(&other).await;
        // The release as well: it ran, and only its answer is lost.
        proxy.trap(Trap::at_answer());
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        timeout(PATIENCE, proxy.until_sprung()).await.expect("an answer was lost");
        let next = other.acquire(&name(), at_once(LONG_LEASE)).await;
        let next = next.unwrap_or_else(|error| panic!("{label}: held twice? {error}"));
        assert_eq!(next.release().await, ReleaseOutcome::Released, "{label}");
        assert_eq!(process.stats().snapshot().acquired, 2, "{label}");
    })
    .await;
}

/// L1: a link that swallows everything and breaks nothing. Whoever is granted the name next finds
/// the holder knowing that it lost it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l1_a_holder_that_is_cut_off_knows_before_anyone_else_holds() {
    with_each(Carries::All, |Pair { label, proxy, process, other }| async move {
        let guard = process.acquire(&name(), waiting(LEASE)).await.expect("granted");
        proxy.set(Fault::Stall);
        let first_deadline = guard.deadline();
        let next = timeout(LEASE * 4, other.acquire(&name(), waiting(LONG_LEASE))).await;
        let next = next.expect("its lease ends").unwrap_or_else(|error| panic!("{label}: {error}"));
        assert!(guard.lost().is_cancelled(), "{label}: two hold");
        assert_eq!(guard.deadline(), first_deadline, "{label}: nothing can have renewed it");
        until("the loss is counted", || process.stats().snapshot().lost == 1).await;
        proxy.mend();
        assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "{label}");
        assert!(!next.is_lost(), "{label}: the late release took it");
        assert_eq!(next.release().await, ReleaseOutcome::Released, "{label}");
    })
    .await;
}

/// L2: a renewal whose answer takes too long, but comes before the lease is over, is no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_a_slow_renewal_is_no_loss() {
    with_each(Carries::All, |Pair { label, proxy, process, other }| async move {
        let lease = LEASE * 2;
        let guard = process.acquire(&name(), waiting(lease)).await.expect("granted");
        let first_deadline = guard.deadline();
        proxy.set(Fault::Stall);
        until("a renewal had no answer", || process.stats().snapshot().renew_failures > 0).await;
        assert!(!guard.is_lost(), "{label}: an error is no loss");
        proxy.mend();
        until("it was renewed", || process.stats().snapshot().renewals > 0).await;
        assert!(guard.deadline() > first_deadline, "{label}");
        assert!(!guard.is_lost() && !guard.lost().is_cancelled(), "{label}");
        let refused = other.acquire(&name(), at_once(lease)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{label}: {refused:?}");
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
        assert_eq!(process.stats().snapshot().lost, 0, "{label}");
    })
    .await;
}
