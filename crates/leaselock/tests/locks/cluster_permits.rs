//! Semaphores and read/write locks on a cluster while primaries are replaced: what stays excluded, and
//! what does not. They have no fence, so nothing behind them refuses a holder too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dev_servers::RedisCluster;
use leaselock::redis::subscriber::Subscriber;
use leaselock::{Guard, LeasedMutex, LockName, Mutex, redis as redis_locks};
use redis_connection::Slot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::{LONG_LEASE, connect, waiting};
use crate::support::{own_cluster, unique};

/// How long a failover may take until every client has had a permit again.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// The lease of a contender where holders lose their server: others wait for its end.
const LEASE: Duration = Duration::from_secs(3);
/// The lease where holds are kept. On a busy machine a failover may take seconds, and a permit of
/// `semaphore` that is not given back within its lease is lost for good.
const KEPT_LEASE: Duration = Duration::from_secs(15);
const PERMITS: u32 = 2;
/// A writer counts as this number of readers: beside it nobody may hold.
const WRITER: usize = 100;

/// A client, and how much of the lock's capacity a hold of it takes.
type Client = (LeasedMutex, usize);

fn name() -> LockName {
    LockName::new("{thing:1}:write").expect("a name")
}

fn slot() -> u16 {
    Slot::of(b"thing:1").number()
}

async fn semaphore(url: &str, prefix: &str) -> LeasedMutex {
    let (redis, tasks) = (connect(url).await, &TaskTracker::new());
    let subscriber = Subscriber::start(redis.clone(), prefix, tasks).expect("a prefix");
    redis_locks::semaphore::mutex(redis, &subscriber, prefix, PERMITS, tasks).expect("a prefix")
}

async fn expiring_semaphore(url: &str, prefix: &str) -> LeasedMutex {
    let (redis, tasks) = (connect(url).await, &TaskTracker::new());
    let subscriber = Subscriber::start(redis.clone(), prefix, tasks).expect("a prefix");
    let made = redis_locks::expiring_semaphore::mutex(redis, &subscriber, prefix, PERMITS, tasks);
    made.expect("a prefix")
}

/// A reader and a writer of one process.
async fn read_write(url: &str, prefix: &str) -> [LeasedMutex; 2] {
    let (redis, tasks) = (connect(url).await, &TaskTracker::new());
    let subscriber = Subscriber::start(redis.clone(), prefix, tasks).expect("a prefix");
    let lock = redis_locks::read_write::read_write(&redis, &subscriber, prefix, tasks);
    let lock = lock.expect("a prefix");
    [lock.read, lock.write]
}

/// The clients of one kind that contend for one name, and what was seen of them.
struct Crowd {
    kind: &'static str,
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

impl Crowd {
    fn new(kind: &'static str, clients: Vec<Client>, capacity: usize) -> Self {
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

/// The kinds without a fence.
async fn crowds(url: &str) -> Vec<Crowd> {
    let permits = usize::try_from(PERMITS).expect("a few");
    let (mut counting, mut expiring, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    let prefixes = [0; 3].map(|_| format!("{}:", unique("crowd")));
    for _ in 0..4 {
        counting.push((semaphore(url, &prefixes[0]).await, 1));
        expiring.push((expiring_semaphore(url, &prefixes[1]).await, 1));
    }
    for _ in 0..2 {
        let [read, write] = read_write(url, &prefixes[2]).await;
        readers.extend([(read, 1), (write, WRITER)]);
    }
    vec![
        Crowd::new("semaphore", counting, permits),
        Crowd::new("expiring-semaphore", expiring, permits),
        Crowd::new("read-write", readers, WRITER),
    ]
}

/// Lets the crowds contend while `fault` happens; then each client has to hold again.
async fn contend(crowds: &[Crowd], lease: Duration, what: &str, fault: impl Future<Output = ()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for Crowd { clients, seen, .. } in crowds {
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
        for (Crowd { kind, seen, .. }, from) in crowds.iter().zip(from) {
            while seen.counts().iter().zip(&from).any(|(now, from)| *now < from + 3) {
                assert!(since.elapsed() < RECOVERY_MAX, "{kind}, {what}: a client never got it");
                sleep(Duration::from_millis(5)).await;
            }
        }
    };
    each_got(crowds.iter().map(|crowd| vec![0; crowd.clients.len()]).collect()).await;
    fault.await;
    each_got(crowds.iter().map(|crowd| crowd.seen.counts()).collect()).await;
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    for Crowd { kind, capacity, seen, .. } in crowds {
        let gap = Duration::from_micros(seen.gap_us_max.load(Ordering::Relaxed));
        let held = seen.held_max.load(Ordering::SeqCst);
        println!("{kind}, {what}: {held} of {capacity} held at once, nobody for {gap:?}");
    }
}

fn assert_kept(crowds: &[Crowd]) {
    for Crowd { kind, capacity, seen, .. } in crowds {
        let held = seen.held_max.load(Ordering::SeqCst);
        assert!(held <= *capacity, "{kind}: {held} of {capacity}");
    }
}

// One failover for all: the other nodes vote for one within twice the node time-out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_keeps_permits_and_writers_apart() {
    let cluster = own_cluster(1).await;
    let crowds = crowds(&cluster.url()).await;
    contend(&crowds, KEPT_LEASE, "CLUSTER FAILOVER", async {
        let owner = cluster.owner(slot(), None).await.expect("an owner");
        cluster.fail_over(owner).await.expect("a failover");
    })
    .await;
    assert_kept(&crowds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_keeps_permits_and_writers_apart() {
    let cluster = own_cluster(0).await;
    let crowds = crowds(&cluster.url()).await;
    contend(&crowds, KEPT_LEASE, "slot moved", async {
        let owner = cluster.owner(slot(), None).await.expect("an owner");
        let to = (owner + 1) % 3;
        cluster.move_slot(slot(), to, Duration::from_millis(50)).await.expect("moved");
    })
    .await;
    assert_kept(&crowds);
}

/// Kills the primary after its replica was cut off from it, and waits for the replica.
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

async fn hold(lock: &LeasedMutex) -> Guard {
    let held = timeout(RECOVERY_MAX, async {
        loop {
            if let Ok(guard) = lock.acquire(&name(), waiting(LONG_LEASE)).await {
                return guard;
            }
        }
    });
    held.await.expect("it is granted")
}

/// What is not promised: a replica that had not heard of a permit grants it again. The first holder
/// hears of that with its next renewal, and holds beside the second one until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_missed_permits_grants_them_again_until_the_first_holders_hear() {
    let cluster = own_cluster(1).await;
    let (url, prefix) = (cluster.url(), format!("{}:", unique("missed")));
    let owner = cluster.owner(slot(), None).await.expect("an owner");
    let heir = cluster.replica_of(owner).await.expect("a replica");
    let [_, first_writer] = read_write(&url, &prefix).await;
    let [_, second_writer] = read_write(&url, &prefix).await;
    let permits = [semaphore(&url, &prefix).await, semaphore(&url, &prefix).await];
    cut_off(&cluster, owner, heir).await;
    let writer = hold(&first_writer).await;
    let mut holders = Vec::new();
    for _ in 0..PERMITS {
        holders.push(hold(&permits[0]).await);
    }
    lose_the_primary(&cluster, owner, heir).await;
    let second = hold(&second_writer).await;
    let since = Instant::now();
    let two_writers = !writer.lost().is_cancelled();
    let third = hold(&permits[1]).await;
    let too_many = holders.iter().filter(|guard| !guard.lost().is_cancelled()).count() + 1;
    // Nobody is told by the server; the renewals find out.
    let bound = LONG_LEASE + Duration::from_secs(5);
    timeout(bound, writer.lost().cancelled()).await.expect("the first writer hears");
    let overlap = since.elapsed();
    for guard in &holders {
        timeout(bound, guard.lost().cancelled()).await.expect("the first holders hear");
    }
    println!("two writers: {two_writers}, permits held: {too_many} of {PERMITS}, for {overlap:?}");
    assert!(!second.lost().is_cancelled() && !third.lost().is_cancelled());
}

/// A permit of `semaphore` that was not given back for the length of a lease is lost for good, and a
/// failover may take longer: it is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_holds_expire_everybody_gets_them_again_after_a_node_was_killed() {
    let cluster = own_cluster(1).await;
    let mut crowds = crowds(&cluster.url()).await;
    crowds.retain(|crowd| crowd.kind != "semaphore");
    contend(&crowds, LEASE, "primary killed", async {
        let owner = cluster.owner(slot(), None).await.expect("an owner");
        let heir = cluster.replica_of(owner).await.expect("a replica");
        lose_the_primary(&cluster, owner, heir).await;
    })
    .await;
}
