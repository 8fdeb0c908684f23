//! What only ZooKeeper's kinds can show: sessions that end, lost answers, and a lost leader.

use std::sync::Arc;
use std::time::Duration;

use dev_servers::ZookeeperEnsemble;
use leaselock::zookeeper::{Ensemble, sequential, spin};
use leaselock::{
    AcquireError, AcquireOptions, Fence, Guard, LeasedMutex, Mutex, ReleaseOutcome, Wait,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use zookeeper_client::{Acls, Client, CreateMode};

use super::proxy::{Link, Proxy};
use super::testbed::name;
use super::{LONG_LEASE, PATIENCE, at_once, fence_of, until, until_lost, waiting};

/// An election, or the end of a session, on a busy machine.
const ELECTION_MAX: Duration = Duration::from_secs(30);

/// A lease whose session is the shortest, and whose commands have time on a busy machine.
const BRIEF_LEASE: Duration = Duration::from_secs(1);

/// Where one test works, and a bare client to look behind the locks' back.
struct TokenTestbed {
    prefix: String,
    bare: Client,
}

impl TokenTestbed {
    async fn new() -> Self {
        let hosts = crate::support::zookeeper_hosts().await;
        let prefix = format!("{}:", crate::support::unique("zookeeper"));
        Self { prefix, bare: Client::connect(&hosts).await.expect("a session") }
    }

    async fn ensemble(&self) -> Arc<Ensemble> {
        self.ensemble_at(&crate::support::zookeeper_hosts().await)
    }

    fn ensemble_at(&self, hosts: &str) -> Arc<Ensemble> {
        Ensemble::new(hosts, &self.prefix).expect("a prefix")
    }

    /// The path of the test's name under a kind.
    fn path(&self, kind: &str) -> String {
        format!("/{}{kind}/{}", self.prefix, name())
    }

    async fn nodes(&self, kind: &str) -> Vec<String> {
        self.bare.list_children(&self.path(kind)).await.unwrap_or_default()
    }
}

async fn proxied() -> (Proxy, String) {
    let hosts = crate::support::zookeeper_hosts().await;
    let proxy = Proxy::start(&format!("redis://{hosts}")).await;
    let host = proxy.host();
    (proxy, host)
}

fn patient(lease: Duration) -> AcquireOptions {
    AcquireOptions { lease, wait: Wait::Until(Instant::now() + ELECTION_MAX) }
}

/// Acquires, through an election or the opening of a session on a busy machine.
async fn get(process: &LeasedMutex, options: AcquireOptions) -> Guard {
    let since = Instant::now();
    loop {
        match process.acquire(&name(), options).await {
            Ok(guard) => return guard,
            Err(AcquireError::Unavailable(_)) if since.elapsed() < ELECTION_MAX => {}
            Err(error) => panic!("not granted: {error}"),
        }
    }
}

/// M12: the server ends the session of a process that is cut off. It is notified before anyone else is
/// let in, and when it is back it takes nothing for its own that is not.
#[tokio::test]
async fn m12_a_process_whose_session_ended_is_notified_first_and_adopts_nothing() {
    let testbed = TokenTestbed::new().await;
    let (proxy, host) = proxied().await;
    let tasks = TaskTracker::new();
    let cut_off = sequential::mutex(&testbed.ensemble_at(&host), &tasks);
    let other = sequential::mutex(&testbed.ensemble().await, &tasks);
    let late = get(&cut_off, waiting(BRIEF_LEASE)).await;
    let old_node = testbed.nodes("sequential").await;
    assert_eq!(old_node.len(), 1);

    proxy.set(Link::Refuses);
    let next = tokio::spawn(async move {
        let guard = get(&other, patient(LONG_LEASE)).await;
        (Instant::now(), guard, other)
    });
    until_lost(&late).await;
    let lost_at = Instant::now();
    let (granted_at, holder, other) = next.await.expect("the other process");
    assert!(lost_at < granted_at, "it was notified {:?} late", lost_at - granted_at);
    assert!(fence_of(&holder) > fence_of(&late));
    let holders_node = testbed.nodes("sequential").await;

    proxy.set(Link::Works);
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
    let node = format!("{}/{}", testbed.path("sequential"), holders_node[0]);
    assert!(testbed.bare.check_stat(&node).await.expect("an answer").is_some(), "it was deleted");
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    let again = get(&cut_off, patient(BRIEF_LEASE)).await;
    assert!(!testbed.nodes("sequential").await.contains(&old_node[0]), "the old node is back");
    assert_eq!(again.release().await, ReleaseOutcome::Released);
    drop(other);
}

/// M5: the answer to the creation is lost. The node is found by its token: one hold, one release.
#[tokio::test]
async fn m5_an_acquire_whose_answer_was_lost_finds_its_own_node() {
    let testbed = TokenTestbed::new().await;
    let tasks = TaskTracker::new();
    for kind in ["sequential", "spin"] {
        let (proxy, host) = proxied().await;
        let ensemble = testbed.ensemble_at(&host);
        let process = match kind {
            "spin" => spin::mutex(&ensemble, &tasks),
            _ => sequential::mutex(&ensemble, &tasks),
        };
        // The session and the directory are there.
        assert_eq!(
            get(&process, waiting(LONG_LEASE)).await.release().await,
            ReleaseOutcome::Released
        );
        proxy.set(Link::LosesNextAnswer);
        let guard = get(&process, waiting(LONG_LEASE)).await;
        proxy.answer_lost().await;
        if kind == "sequential" {
            assert_eq!(testbed.nodes(kind).await.len(), 1, "{kind}");
        }
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
        let free = testbed.bare.list_children(&testbed.path(kind)).await.unwrap_or_default();
        assert!(free.is_empty(), "{kind}: {free:?}");
        let guard = get(&process, at_once(LONG_LEASE)).await;
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
    }
}

/// M3: a caller whose node is the first, and that has not read the floor of the fences yet, gets a fence above the
/// raised one.
#[tokio::test]
async fn m3_a_raised_fence_is_exceeded_by_a_node_that_was_there() {
    let testbed = TokenTestbed::new().await;
    let ensemble = testbed.ensemble().await;
    let tasks = TaskTracker::new();
    for kind in ["sequential", "spin"] {
        let path = testbed.path(kind);
        let (process, node) = match kind {
            "spin" => (spin::mutex(&ensemble, &tasks), path),
            _ => (sequential::mutex(&ensemble, &tasks), format!("{path}/first")),
        };
        let guard = get(&process, waiting(LONG_LEASE)).await;
        let raised = Fence(fence_of(&guard).get() + 1_000_000_000);
        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{kind}");
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        let made = testbed.bare.create(&node, b"", &options).await.expect("created").0;
        assert_eq!(process.raise_fence(&name(), raised).await, Ok(()), "{kind}");
        let base = format!("/{}{kind}", testbed.prefix);
        let floor = testbed.bare.get_data(&base).await.expect("the floor").0;
        let floor: u64 = String::from_utf8(floor).expect("text").parse().expect("a number");
        let fence = u64::try_from(made.czxid).expect("positive") + floor;
        assert!(fence > raised.get(), "{kind}: {fence} after {raised}");
        testbed.bare.delete(&node, None).await.expect("deleted");
    }
}

/// M9: an operator deletes the node under the holder. The next renewal tells, and the holder's
/// release leaves the next one's node alone.
#[tokio::test]
async fn m9_a_holder_whose_node_was_deleted_is_notified() {
    let testbed = TokenTestbed::new().await;
    let tasks = TaskTracker::new();
    let (first, second) = (testbed.ensemble().await, testbed.ensemble().await);
    for kind in ["sequential", "spin"] {
        let (late, quick) = match kind {
            "spin" => (spin::mutex(&first, &tasks), spin::mutex(&second, &tasks)),
            _ => (sequential::mutex(&first, &tasks), sequential::mutex(&second, &tasks)),
        };
        let guard = get(&late, waiting(Duration::from_secs(2))).await;
        let node = match testbed.nodes(kind).await.first() {
            Some(node) => format!("{}/{node}", testbed.path(kind)),
            None => testbed.path(kind),
        };
        testbed.bare.delete(&node, None).await.expect("deleted");
        let holder = get(&quick, at_once(LONG_LEASE)).await;
        until_lost(&guard).await;
        assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "{kind}");
        let refused = late.acquire(&name(), at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{kind}: {refused:?}");
        assert_eq!(holder.release().await, ReleaseOutcome::Released, "{kind}");
    }
}

/// The leader of three is killed under the holder: nobody else gets in while the hold is good, and
/// fences go on rising. Without a quorum the holder is notified, and nobody gets anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_survives_the_leader_and_ends_with_the_quorum() {
    const LEASE: Duration = Duration::from_secs(2);
    let servers = ZookeeperEnsemble::start_temporary(3).await.expect("an ensemble");
    let prefix = format!("{}:", crate::support::unique("ensemble"));
    let process = || {
        let ensemble = Ensemble::new(&servers.hosts(), &prefix).expect("a prefix");
        sequential::mutex(&ensemble, &TaskTracker::new())
    };
    let (first, second) = (process(), process());
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
