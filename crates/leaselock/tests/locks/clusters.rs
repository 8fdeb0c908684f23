//! The locks on a cluster and with Sentinels, while slots move and primaries are replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use leaselock::redis::subscriber::Subscriber;
use leaselock::{LeasedMutex, LockName, Mutex, redis as redis_locks};
use redis::AsyncCommands;
use redis_connection::{Options, Slot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::{LONG_LEASE, PATIENCE, at_once, connect, shared, waiting};
use crate::support::{cluster, own_cluster, own_sentinels, unique};

/// How long a failover may take until every client has had the lock again. The cluster's node
/// time-out is 2 seconds, and the lease of a dead holder 3.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// The lease of contenders: a holder that a failover forgot costs no more.
const LEASE: Duration = Duration::from_secs(3);
/// The lease where holds are kept, and none may end because the machine is busy.
const KEPT_LEASE: Duration = Duration::from_secs(15);
const CLIENTS: usize = 4;

fn name() -> LockName {
    LockName::new("{thing:1}:write").expect("a name")
}

/// One more process on the servers at `url`.
async fn process(url: &str, prefix: &str) -> LeasedMutex {
    let (redis, tasks) = (connect(url).await, &TaskTracker::new());
    let subscriber = Subscriber::start(redis.clone(), prefix, tasks).expect("a prefix");
    redis_locks::token::notified(redis, &subscriber, prefix, tasks).expect("a prefix")
}

/// PUBLISH answers how many listen at one node, and reaches all nodes. A script that grants first
/// and takes the answer 0 for "nobody heard" makes two holders.
#[tokio::test]
async fn a_contender_that_listens_at_another_node_never_holds_beside_another() {
    let cluster = cluster().await;
    let (url, prefix) = (cluster.url(), format!("{}:", unique("elsewhere")));
    let slot = Slot::of(b"thing:1").number();
    let owner = cluster.owner(slot, None).await.expect("an owner");
    let elsewhere = (0..3).find(|node| *node != owner).expect("another primary");

    let holder = process(&url, &prefix).await.acquire(&name(), waiting(LONG_LEASE)).await;
    let (redis, tasks) = (connect(&url).await, &TaskTracker::new());
    let other_node = shared(&cluster.nodes[elsewhere].tcp_url(), Options::default());
    let subscriber = Subscriber::start(other_node, &prefix, tasks).expect("a prefix");
    let waits = redis_locks::token::notified(redis.clone(), &subscriber, &prefix, tasks);
    let waits = waits.expect("a prefix");
    let mut contender =
        tokio::spawn(async move { waits.acquire(&name(), waiting(LONG_LEASE)).await });
    let queue = format!("{prefix}queue:{}", name());
    let entry = async || -> Vec<String> { redis.clone().hvals(&queue).await.expect("HVALS") };
    let since = Instant::now();
    while !entry().await.iter().any(|said| said.contains("wake:")) {
        assert!(since.elapsed() < PATIENCE, "the contender did not subscribe");
        sleep(Duration::from_millis(1)).await;
    }
    let _ = holder.expect("free before").release().await;
    let second = process(&url, &prefix).await.acquire(&name(), at_once(LONG_LEASE)).await;
    if let Ok(second) = second {
        let both = timeout(Duration::from_millis(300), &mut contender).await;
        assert!(both.is_err(), "two hold the lock at once");
        let _ = second.release().await;
    }
    let first = timeout(PATIENCE, contender).await.expect("it asks again").expect("no panic");
    let _ = first.expect("the lock is granted").release().await;
}

/// What the clients of a failover saw.
struct Seen {
    /// The most holders at one time.
    holders_max: usize,
    /// The longest time in which no client got the lock.
    longest_gap: Duration,
}

/// Lets clients contend for one name while `fault` happens; then each has to get it again.
async fn contend(url: &str, lease: Duration, what: &str, fault: impl Future<Output = ()>) -> Seen {
    let prefix = format!("{}:", unique("contend"));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (gap_us, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..CLIENTS).map(|_| AtomicU64::new(0)).collect());
    let last = Arc::new(std::sync::Mutex::new(Instant::now()));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let process = process(url, &prefix).await;
        let (inside, most, gap_us) = (inside.clone(), most.clone(), gap_us.clone());
        let (stop, counts, last) = (stop.clone(), counts.clone(), last.clone());
        clients.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let Ok(guard) = process.acquire(&name(), waiting(lease)).await else { continue };
                // A guard that is lost is not inside any more.
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                counts[client].fetch_add(1, Ordering::Relaxed);
                {
                    let mut last = last.lock().expect("no panic");
                    let gap = u64::try_from(last.elapsed().as_micros()).expect("short");
                    gap_us.fetch_max(gap, Ordering::Relaxed);
                    *last = Instant::now();
                }
                let lost = guard.lost();
                tokio::select! {
                    () = sleep(Duration::from_millis(2)) => {}
                    () = lost.cancelled() => {}
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                let _ = guard.release().await;
            }
        });
    }
    let each_got = async |from: &[u64]| {
        let since = Instant::now();
        while (0..CLIENTS).any(|client| counts[client].load(Ordering::Relaxed) < from[client] + 3) {
            assert!(since.elapsed() < RECOVERY_MAX, "{what}: a client never got the lock again");
            sleep(Duration::from_millis(5)).await;
        }
    };
    each_got(&[0; CLIENTS]).await;
    fault.await;
    let now: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    each_got(&now).await;
    stop.store(true, Ordering::Relaxed);
    clients.join_all().await;
    let seen = Seen {
        holders_max: most.load(Ordering::SeqCst),
        longest_gap: Duration::from_micros(gap_us.load(Ordering::Relaxed)),
    };
    println!("{what}: holders at once {}, nobody for {:?}", seen.holders_max, seen.longest_gap);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_of_a_node_keeps_exclusion() {
    let cluster = own_cluster(1).await;
    let seen = contend(&cluster.url(), KEPT_LEASE, "CLUSTER FAILOVER", async {
        let owner = cluster.owner(Slot::of(b"thing:1").number(), None).await.expect("an owner");
        cluster.fail_over(owner).await.expect("a failover");
    })
    .await;
    assert_eq!(seen.holders_max, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_keeps_exclusion() {
    let cluster = own_cluster(0).await;
    let slot = Slot::of(b"thing:1").number();
    let seen = contend(&cluster.url(), KEPT_LEASE, "slot moved and back", async {
        let owner = cluster.owner(slot, None).await.expect("an owner");
        for to in [(owner + 1) % 3, owner] {
            cluster.move_slot(slot, to, Duration::from_millis(50)).await.expect("moved");
        }
    })
    .await;
    assert_eq!(seen.holders_max, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_the_lock_again_after_a_node_was_killed() {
    let cluster = own_cluster(1).await;
    contend(&cluster.url(), LEASE, "primary of the cluster killed", async {
        let owner = cluster.owner(Slot::of(b"thing:1").number(), None).await.expect("an owner");
        let heir = cluster.replica_of(owner).await.expect("a replica");
        cluster.nodes[owner].kill().await;
        cluster.until_primary(heir).await.expect("a new primary");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_the_lock_again_after_a_node_was_cut_off() {
    let cluster = own_cluster(1).await;
    contend(&cluster.url(), LEASE, "primary of the cluster frozen", async {
        let owner = cluster.owner(Slot::of(b"thing:1").number(), None).await.expect("an owner");
        let heir = cluster.replica_of(owner).await.expect("a replica");
        assert!(cluster.nodes[owner].pause());
        cluster.until_primary(heir).await.expect("a new primary");
        assert!(cluster.nodes[owner].resume());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_gets_the_lock_again_after_sentinels_replaced_the_primary() {
    let group = own_sentinels().await;
    contend(&group.url(), LEASE, "primary with Sentinels killed", async {
        let primary = group.primary().await.expect("a primary");
        group.servers[primary].kill().await;
        let since = Instant::now();
        while group.primary().await == Some(primary) {
            assert!(since.elapsed() < RECOVERY_MAX, "the Sentinels did not replace it");
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn redlock_refuses_servers_of_one_cluster_and_servers_that_replicate_each_other() {
    let (cluster, group) = (cluster().await, own_sentinels().await);
    let nodes: Vec<String> = cluster.nodes.iter().take(3).map(|node| node.tcp_url()).collect();
    let group: Vec<String> = group.servers.iter().map(|server| server.tcp_url()).collect();
    for (urls, why) in [(nodes, "cluster"), (group, "replicate")] {
        let servers = urls.iter().map(|url| shared(url, Options::default())).collect();
        let prefix = format!("{}:", unique("dependent"));
        let lock = redis_locks::redlock::mutex(servers, &prefix, &TaskTracker::new());
        let refused = lock.expect("three servers").acquire(&name(), at_once(LONG_LEASE)).await;
        let refused = refused.expect_err("they are not independent");
        assert!(format!("{refused:?}").contains(why), "{refused:?}");
    }
}
