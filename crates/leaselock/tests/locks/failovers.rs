//! Failovers of Redis: clients that contend for one name while a primary is replaced, and what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dev_servers::{RedisCluster, RedisSentinels};
use leaselock::LeasedMutex;
use redis_connection::Slot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::testbed::name;
use super::waiting;

/// How long a failover may take until every client has held the lock again. The cluster's node
/// time-out is 2 seconds, and the lease of a dead holder 3.
pub const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// The lease of a contender where holders lose their server: a hold that a failover forgot blocks
/// the others no longer.
pub const LEASE: Duration = Duration::from_secs(3);
/// The lease where holds are kept, and none may end because the machine is busy. A permit of
/// `semaphore` that is not given back within its lease is lost for good.
pub const KEPT_LEASE: Duration = Duration::from_secs(15);

/// The slot of [`name`].
pub fn slot() -> u16 {
    Slot::of(b"thing:1").number()
}

/// A client, and how much of the lock's capacity a hold of it takes.
pub type Client = (LeasedMutex, usize);

/// The clients of one kind that contend for one name, and what was seen of them.
pub struct Contenders {
    pub kind: &'static str,
    clients: Vec<Client>,
    /// How much may be held at once.
    capacity: usize,
    seen: Arc<Seen>,
}

struct Seen {
    held: AtomicUsize,
    held_max: AtomicUsize,
    /// The longest time in which no client got a hold.
    gap_us_max: AtomicU64,
    last: std::sync::Mutex<Instant>,
    /// Holds of each client.
    counts: Vec<AtomicU64>,
}

impl Contenders {
    /// Contenders of `kind`. The sum of what their holds take may be `capacity`.
    pub fn new(kind: &'static str, clients: Vec<Client>, capacity: usize) -> Self {
        let seen = Seen {
            held: AtomicUsize::new(0),
            held_max: AtomicUsize::new(0),
            gap_us_max: AtomicU64::new(0),
            last: std::sync::Mutex::new(Instant::now()),
            counts: clients.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        Self { kind, clients, capacity, seen: Arc::new(seen) }
    }
}

impl Seen {
    fn enters(&self, client: usize, takes: usize) {
        let now = self.held.fetch_add(takes, Ordering::SeqCst) + takes;
        self.held_max.fetch_max(now, Ordering::SeqCst);
        self.counts[client].fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock().expect("no panic");
        let gap = u64::try_from(last.elapsed().as_micros()).expect("short");
        self.gap_us_max.fetch_max(gap, Ordering::Relaxed);
        *last = Instant::now();
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// Lets all clients contend while `fault` happens; then each client has to hold again.
pub async fn contend(
    all: &[Contenders],
    lease: Duration,
    what: &str,
    fault: impl Future<Output = ()>,
) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for Contenders { clients, seen, .. } in all {
        for (index, (lock, takes)) in clients.iter().cloned().enumerate() {
            let (seen, stop) = (Arc::clone(seen), Arc::clone(&stop));
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(guard) = lock.acquire(&name(), waiting(lease)).await else { continue };
                    seen.enters(index, takes);
                    // A guard that is lost holds no more.
                    let lost = guard.lost();
                    tokio::select! {
                        () = sleep(Duration::from_millis(2)) => {}
                        () = lost.cancelled() => {}
                    }
                    seen.held.fetch_sub(takes, Ordering::SeqCst);
                    let _ = guard.release().await;
                }
            });
        }
    }
    let each_got = async |from: Vec<Vec<u64>>| {
        let since = Instant::now();
        for (Contenders { kind, seen, .. }, from) in all.iter().zip(from) {
            while seen.counts().iter().zip(&from).any(|(now, from)| *now < from + 3) {
                assert!(since.elapsed() < RECOVERY_MAX, "{kind}, {what}: a client never got it");
                sleep(Duration::from_millis(5)).await;
            }
        }
    };
    each_got(all.iter().map(|contenders| vec![0; contenders.clients.len()]).collect()).await;
    fault.await;
    each_got(all.iter().map(|contenders| contenders.seen.counts()).collect()).await;
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    for Contenders { kind, capacity, seen, .. } in all {
        let gap = Duration::from_micros(seen.gap_us_max.load(Ordering::Relaxed));
        let held = seen.held_max.load(Ordering::SeqCst);
        println!("{kind}, {what}: {held} of {capacity} held at once, nobody for {gap:?}");
    }
}

/// Asserts that never more was held than the capacity.
pub fn assert_kept(all: &[Contenders]) {
    for Contenders { kind, capacity, seen, .. } in all {
        let held = seen.held_max.load(Ordering::SeqCst);
        assert!(held <= *capacity, "{kind}: {held} of {capacity}");
    }
}

/// The node whose slot has [`name`], and a replica of it.
pub async fn owner_and_heir(cluster: &RedisCluster) -> (usize, usize) {
    let owner = owner(cluster).await;
    (owner, cluster.replica_of(owner).await.expect("a replica"))
}

/// The node whose slot has [`name`].
pub async fn owner(cluster: &RedisCluster) -> usize {
    cluster.owner(slot(), None).await.expect("an owner")
}

/// A failover on request: nothing is lost.
pub async fn fail_over(cluster: &RedisCluster) {
    cluster.fail_over(owner(cluster).await).await.expect("a failover");
}

/// Kills the primary of [`name`], and waits for its replica.
pub async fn kill_the_owner(cluster: &RedisCluster) {
    let (owner, heir) = owner_and_heir(cluster).await;
    lose_the_primary(cluster, owner, heir).await;
}

/// Kills the primary, and waits until the Sentinels have replaced it.
pub async fn replace_the_primary(group: &RedisSentinels) {
    let primary = group.primary().await.expect("a primary");
    group.servers[primary].kill().await;
    let since = Instant::now();
    while group.primary().await == Some(primary) {
        assert!(since.elapsed() < RECOVERY_MAX, "the Sentinels did not replace it");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Kills the primary, and waits until the replica has taken over.
pub async fn lose_the_primary(cluster: &RedisCluster, owner: usize, heir: usize) {
    cluster.nodes[owner].kill().await;
    cluster.until_primary(heir).await.expect("a new primary");
}

/// From now on the replica hears nothing of the primary's writes, and is still known to the cluster.
pub async fn cut_off(cluster: &RedisCluster, owner: usize, heir: usize) {
    let set = ["CONFIG", "SET", "masterauth", "not the password"];
    let () = cluster.nodes[heir].run(&set).await.expect("CONFIG SET");
    let kill = ["CLIENT", "KILL", "TYPE", "replica"];
    let killed: i64 = cluster.nodes[owner].run(&kill).await.expect("CLIENT KILL");
    assert_eq!(killed, 1, "the replica was connected");
}
