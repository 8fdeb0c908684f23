//! A mutex, semaphores and read/write locks while primaries of a cluster or with Sentinels are replaced: what stays
//! excluded, and what does not. Permits and readers have no fence, so nothing behind them refuses a holder too many.

use std::time::Duration;

use leaselock::{Guard, LeasedMutex};
use tokio::time::{Instant, timeout};

use super::failovers::{
    Contenders, KEPT_LEASE, LEASE, RECOVERY_MAX, assert_kept, contend, cut_off, fail_over,
    kill_the_owner, lose_the_primary, owner, owner_and_heir, replace_the_primary, slot,
};
use super::testbed::{Testbed, listed, name};
use super::{LONG_LEASE, waiting};
use crate::support::{own_cluster, own_sentinels};

/// Clients of each kind.
const CLIENTS: usize = 4;
const PERMITS: u32 = 2;
/// A writer counts as this number of readers: beside it nobody may hold.
const WRITER: usize = 100;

/// The main kind, and those without a fence.
async fn contenders(url: &str) -> Vec<Contenders> {
    let testbed = Testbed::new().with_redis(url.to_owned());
    let permits = usize::try_from(PERMITS).expect("a few");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push((testbed.process(listed("redis", "token")).await, 1));
    }
    let mut all = vec![Contenders::new("token", clients, 1)];
    for kind in ["semaphore", "expiring-semaphore"] {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push((testbed.semaphore(listed("redis", kind), PERMITS).await, 1));
        }
        all.push(Contenders::new(kind, clients, permits));
    }
    let mut clients = Vec::new();
    for _ in 0..CLIENTS / 2 {
        let lock = testbed.read_write(listed("redis", "read-write")).await;
        clients.extend([(lock.read, 1), (lock.write, WRITER)]);
    }
    all.push(Contenders::new("read-write", clients, WRITER));
    all
}

// One failover for all: the other nodes vote for one within twice the node time-out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_keeps_permits_and_writers_apart() {
    let cluster = own_cluster(1).await;
    let all = contenders(&cluster.url()).await;
    contend(&all, KEPT_LEASE, "CLUSTER FAILOVER", fail_over(&cluster)).await;
    assert_kept(&all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_keeps_permits_and_writers_apart() {
    let cluster = own_cluster(0).await;
    let all = contenders(&cluster.url()).await;
    contend(&all, KEPT_LEASE, "slot moved and back", async {
        let owner = owner(&cluster).await;
        for to in [(owner + 1) % 3, owner] {
            cluster.move_slot(slot(), to, Duration::from_millis(50)).await.expect("moved");
        }
    })
    .await;
    assert_kept(&all);
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
/// hears of that with its next renewal, and holds beside the second one until then. A writer hears at
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_missed_permits_grants_them_again_until_the_first_holders_hear() {
    let cluster = own_cluster(1).await;
    let testbed = Testbed::new().with_redis(cluster.url());
    let (owner, heir) = owner_and_heir(&cluster).await;
    let writer = async || testbed.read_write(listed("redis", "read-write")).await.write;
    let semaphore = async || testbed.semaphore(listed("redis", "semaphore"), PERMITS).await;
    let first_writer = writer().await;
    let second_writer = writer().await;
    let permits = [semaphore().await, semaphore().await];
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
    let bound = LONG_LEASE + Duration::from_secs(5);
    timeout(bound, writer.lost().cancelled()).await.expect("the first writer hears");
    let overlap = since.elapsed();
    assert_eq!(first_writer.stats().snapshot().renew_failures, 0, "no renewal found out");
    let third = hold(&permits[1]).await;
    let too_many = holders.iter().filter(|guard| !guard.lost().is_cancelled()).count() + 1;
    // These have no message of the server; the renewals find out.
    for guard in &holders {
        timeout(bound, guard.lost().cancelled()).await.expect("the first holders hear");
    }
    println!("two writers: {two_writers}, permits held: {too_many} of {PERMITS}, for {overlap:?}");
    assert!(!second.lost().is_cancelled() && !third.lost().is_cancelled());
}

/// Asserts that each client holds again after `fault`. A permit of `semaphore` that was not given back within its lease is
/// lost for good, and a failover may take longer: this kind is left out.
async fn everybody_gets_them_again(url: &str, what: &str, fault: impl Future<Output = ()>) {
    let mut all = contenders(url).await;
    all.retain(|one| one.kind != "semaphore");
    contend(&all, LEASE, what, fault).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_holds_expire_everybody_gets_them_again_after_a_node_was_killed() {
    let cluster = own_cluster(1).await;
    everybody_gets_them_again(&cluster.url(), "primary killed", kill_the_owner(&cluster)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_holds_expire_everybody_gets_them_again_after_a_node_stood_still() {
    let cluster = own_cluster(1).await;
    everybody_gets_them_again(&cluster.url(), "primary frozen", async {
        let (owner, heir) = owner_and_heir(&cluster).await;
        assert!(cluster.nodes[owner].pause());
        cluster.until_primary(heir).await.expect("a new primary");
        assert!(cluster.nodes[owner].resume());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_holds_expire_everybody_gets_them_again_after_sentinels_replaced_the_primary() {
    let group = own_sentinels().await;
    everybody_gets_them_again(&group.url(), "primary replaced", replace_the_primary(&group)).await;
}
