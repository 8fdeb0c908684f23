//! What only ZooKeeper's kinds can show: sessions that end, lost answers, and a lost leader.

use std::time::Duration;

use dev_servers::ZookeeperEnsemble;
use faulty_link::{FaultyLink, Trap};
use leaselock::{AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, ReleaseOutcome};
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode};

use super::testbed::{Testbed, granted_within, listed, name, refused};
use super::{LONG_LEASE, PATIENCE, at_once, fence_of, until, until_lost, waiting, waiting_for};
use crate::support::zookeeper_hosts;

/// An election, or the end of a session, on a busy machine.
const ELECTION_MAX: Duration = Duration::from_secs(30);

/// A lease whose session is the shortest, and whose commands have time on a busy machine.
const BRIEF_LEASE: Duration = Duration::from_secs(1);

/// Where one test works, and a bare client to look behind the locks' back.
struct Site {
    testbed: Testbed,
    bare: Client,
}

impl Site {
    async fn new() -> Self {
        let bare = Client::connect(&zookeeper_hosts().await).await.expect("a session");
        Self { testbed: Testbed::new(), bare }
    }

    /// The path of the test's name under a kind.
    fn path(&self, kind: &str) -> String {
        format!("/{}{kind}/{}", self.testbed.prefix, name())
    }

    async fn nodes(&self, kind: &str) -> Vec<String> {
        self.bare.list_children(&self.path(kind)).await.unwrap_or_default()
    }
}

/// One more process, with sessions of its own.
async fn process(testbed: &Testbed, kind: &str) -> LeasedMutex {
    testbed.process(listed("zookeeper", kind)).await
}

fn patient(lease: Duration) -> AcquireOptions {
    waiting_for(lease, ELECTION_MAX)
}

/// Acquires, through an election or the opening of a session on a busy machine.
async fn get(process: &LeasedMutex, options: AcquireOptions) -> Guard {
    granted_within(ELECTION_MAX, process, || options).await
}

/// M12: the server ends the session of a process that is cut off. It is notified before anyone else is
/// let in, and when it is back it takes nothing for its own that is not.
#[tokio::test]
async fn m12_a_process_whose_session_ended_is_notified_first_and_adopts_nothing() {
    let site = Site::new().await;
    let proxy = FaultyLink::to(&*zookeeper_hosts().await).await.expect("a port");
    let cut_off =
        process(&site.testbed.with_zookeeper(proxy.addr().to_string()), "sequential").await;
    let other = process(&site.testbed, "sequential").await;
    let late = get(&cut_off, waiting(BRIEF_LEASE)).await;
    let old_node = site.nodes("sequential").await;
    assert_eq!(old_node.len(), 1);

    proxy.cut();
    let next = tokio::spawn(async move {
        let guard = get(&other, patient(LONG_LEASE)).await;
        (Instant::now(), guard, other)
    });
    until_lost(&late).await;
    let lost_at = Instant::now();
    let (granted_at, holder, other) = next.await.expect("the other process");
    assert!(lost_at < granted_at, "it was notified {:?} late", lost_at - granted_at);
    assert!(fence_of(&holder) > fence_of(&late));
    let holders_node = site.nodes("sequential").await;

    proxy.mend();
    assert_eq!(late.release().await, ReleaseOutcome::AlreadyLost);
    let since = Instant::now();
    loop {
        // The first tries may still meet the session that is over.
        match cut_off.acquire(&name(), at_once(BRIEF_LEASE)).await {
            Err(AcquireError::Busy) => break,
            Err(AcquireError::Unavailable(_)) if since.elapsed() < ELECTION_MAX => {}
            other => panic!("it may not be granted: {other:?}"),
        }
    }
    let node = format!("{}/{}", site.path("sequential"), holders_node[0]);
    assert!(site.bare.check_stat(&node).await.expect("an answer").is_some(), "it was deleted");
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    let again = get(&cut_off, patient(BRIEF_LEASE)).await;
    assert!(!site.nodes("sequential").await.contains(&old_node[0]), "the old node is back");
    assert_eq!(again.release().await, ReleaseOutcome::Released);
    drop(other);
}

/// M5: the answer to the creation is lost. The node is found by its token: one hold, one release.
#[tokio::test]
async fn m5_an_acquire_whose_answer_was_lost_finds_its_own_node() {
    let site = Site::new().await;
    for kind in ["sequential", "spin"] {
        let proxy = FaultyLink::to(&*zookeeper_hosts().await).await.expect("a port");
        let process = process(&site.testbed.with_zookeeper(proxy.addr().to_string()), kind).await;
        // The session and the directory are there.
        assert_eq!(
            get(&process, waiting(LONG_LEASE)).await.release().await,
            ReleaseOutcome::Released
        );
        proxy.trap(Trap::at_answer());
        let guard = get(&process, waiting(LONG_LEASE)).await;
        proxy.until_sprung().await;
        if kind == "sequential" {
            assert_eq!(site.nodes(kind).await.len(), 1, "{kind}");
        }
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
        let free = site.bare.list_children(&site.path(kind)).await.unwrap_or_default();
        assert!(free.is_empty(), "{kind}: {free:?}");
        let guard = get(&process, at_once(LONG_LEASE)).await;
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
    }
}

/// M3: a caller whose node is the first, and that has not read the floor of the fences yet, gets a fence above the
/// raised one.
#[tokio::test]
async fn m3_a_raised_fence_is_exceeded_by_a_node_that_was_there() {
    let site = Site::new().await;
    for (kind, below) in [("sequential", "/first"), ("spin", "")] {
        let node = format!("{}{below}", site.path(kind));
        let process = process(&site.testbed, kind).await;
        let guard = get(&process, waiting(LONG_LEASE)).await;
        let raised = Fence(fence_of(&guard).get() + 1_000_000_000);
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let made = site.bare.create(&node, b"", &options).await.expect("created").0;
        assert_eq!(process.raise_fence(&name(), raised).await, Ok(()), "{kind}");
        let base = format!("/{}{kind}", site.testbed.prefix);
        let floor = site.bare.get_data(&base).await.expect("the floor").0;
        let floor: u64 = String::from_utf8(floor).expect("text").parse().expect("a number");
        let fence = u64::try_from(made.czxid).expect("positive") + floor;
        assert!(fence > raised.get(), "{kind}: {fence} after {raised}");
        site.bare.delete(&node, None).await.expect("deleted");
    }
}

/// M9: an operator deletes the node under the holder. The next renewal tells, and the holder's
/// release leaves the next one's node alone.
#[tokio::test]
async fn m9_a_holder_whose_node_was_deleted_is_notified() {
    let site = Site::new().await;
    for kind in ["sequential", "spin"] {
        let late = process(&site.testbed, kind).await;
        let quick = process(&site.testbed, kind).await;
        let guard = get(&late, waiting(Duration::from_secs(2))).await;
        let node = match site.nodes(kind).await.first() {
            Some(node) => format!("{}/{node}", site.path(kind)),
            None => site.path(kind),
        };
        site.bare.delete(&node, None).await.expect("deleted");
        let holder = get(&quick, at_once(LONG_LEASE)).await;
        until_lost(&guard).await;
        assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "{kind}");
        refused(&late).await;
        assert_eq!(holder.release().await, ReleaseOutcome::Released, "{kind}");
    }
}

/// The leader of three is killed under the holder: nobody else gets in while the hold is good, and
/// fences go on rising. Without a quorum the holder is notified, and nobody gets anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_the_leader_and_ends_with_the_quorum() {
    const LEASE: Duration = Duration::from_secs(2);
    let servers = ZookeeperEnsemble::start_temporary(3).await.expect("an ensemble");
    let testbed = Testbed::new().with_zookeeper(servers.hosts());
    let first = process(&testbed, "sequential").await;
    let second = process(&testbed, "sequential").await;
    let holder = get(&first, patient(LEASE)).await;
    let mut last = fence_of(&holder);
    let waiter = second.clone();
    let next = tokio::spawn(async move { get(&waiter, patient(LEASE)).await });
    until("the other one waits", || second.stats().snapshot().contended == 1).await;

    let leader = servers.leader().await.expect("a leader");
    servers.members[leader].kill().await;
    let until_then = Instant::now() + LEASE;
    while Instant::now() < until_then {
        assert!(!next.is_finished() || holder.is_lost(), "two hold");
        sleep(Duration::from_millis(5)).await;
    }
    // The line may have broken with the leader, and the waiter have to come again.
    let _ = holder.release().await;
    let guard = next.await.expect("the other process");
    assert!(fence_of(&guard) > last, "{} after {last}", fence_of(&guard));
    last = fence_of(&guard);
    let _ = guard.release().await;
    let mut rounds = 0;
    let since = Instant::now();
    while rounds < 10 {
        assert!(since.elapsed() < ELECTION_MAX, "no new leader");
        let process = if rounds % 2 == 0 { &first } else { &second };
        let Ok(guard) = process.acquire(&name(), patient(LEASE)).await else { continue };
        assert!(fence_of(&guard) > last, "{} after {last}", fence_of(&guard));
        last = fence_of(&guard);
        let _ = guard.release().await;
        rounds += 1;
    }

    let holder = get(&first, patient(LEASE)).await;
    let leader = servers.leader().await.expect("a leader");
    servers.members[leader].kill().await;
    timeout(LEASE + PATIENCE, holder.lost().cancelled()).await.expect("lost fires");
    let refused = second.acquire(&name(), patient(LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
}
