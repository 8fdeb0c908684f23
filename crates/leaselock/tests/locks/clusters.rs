//! The locks on a cluster whose nodes are known to other clients, are away, or are not independent.

use std::time::Duration;

use dev_servers::RedisCluster;
use leaselock::{LeasedMutex, LockName, ReleaseOutcome, redis as redis_locks};
use redis::AsyncCommands;
use redis_connection::{Options, Slot};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::failovers::{LEASE, owner};
use super::testbed::{Testbed, listed, name};
use super::{LONG_LEASE, PATIENCE, at_once, connect, shared, until, until_lost, waiting};
use crate::support::{cluster, own_cluster, own_sentinels, unique};

/// One more process on the servers at `url`.
async fn process(testbed: &Testbed, url: &str) -> LeasedMutex {
    testbed.process_behind(listed("redis", "token"), url).await
}

/// PUBLISH answers how many listen at one node, and reaches all nodes. A script that grants first
/// and takes the answer 0 for "nobody heard" makes two holders.
#[tokio::test]
async fn a_contender_that_listens_at_another_node_never_holds_beside_another() {
    let cluster = cluster().await;
    let url = cluster.url();
    let testbed = Testbed::new();
    let owner = owner(cluster).await;
    let elsewhere = (0..3).find(|node| *node != owner).expect("another primary");

    let holder = process(&testbed, &url).await.acquire(&name(), waiting(LONG_LEASE)).await;
    let other_node = cluster.nodes[elsewhere].tcp_url();
    let waits = testbed.process_notified_at(listed("redis", "token"), &url, &other_node).await;
    let mut contender =
        tokio::spawn(async move { waits.acquire(&name(), waiting(LONG_LEASE)).await });
    let redis = connect(&url).await;
    let queue = format!("{}queue:{}", testbed.prefix, name());
    let entry = async || -> Vec<String> { redis.clone().hvals(&queue).await.expect("HVALS") };
    let since = Instant::now();
    while !entry().await.iter().any(|said| said.contains("wake:")) {
        assert!(since.elapsed() < PATIENCE, "the contender did not subscribe");
        sleep(Duration::from_millis(1)).await;
    }
    let _ = holder.expect("free before").release().await;
    let second = process(&testbed, &url).await.acquire(&name(), at_once(LONG_LEASE)).await;
    if let Ok(second) = second {
        let both = timeout(Duration::from_millis(300), &mut contender).await;
        assert!(both.is_err(), "two hold the lock at once");
        let _ = second.release().await;
    }
    let first = timeout(PATIENCE, contender).await.expect("it asks again").expect("no panic");
    let _ = first.expect("the lock is granted").release().await;
}

/// A name in a slot of this node.
async fn name_at(cluster: &RedisCluster, node: usize) -> LockName {
    for number in 0..100 {
        let tag = format!("thing:{number}");
        let slot = Slot::of(tag.as_bytes()).number();
        if cluster.owner(slot, None).await.expect("an owner") == node {
            return LockName::new(&format!("{{{tag}}}:write")).expect("a name");
        }
    }
    panic!("no name of a hundred is in a slot of node {node}");
}

/// Renewals that are due together share one command, and one of them never gets an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_away_ends_no_hold_at_another_one() {
    let cluster = own_cluster(0).await;
    let prefix = format!("{}:", unique("away"));
    let redis = connect(&cluster.url()).await;
    let lock = redis_locks::token::mutex(redis, &prefix, &TaskTracker::new()).expect("a prefix");
    let stays = name_at(&cluster, 0).await;
    let goes = name_at(&cluster, 1).await;
    let (first, second) =
        tokio::join!(lock.acquire(&stays, waiting(LEASE)), lock.acquire(&goes, waiting(LEASE)));
    let first = first.expect("free");
    let second = second.expect("free");
    cluster.nodes[1].kill().await;
    until_lost(&second).await;
    let renewed = lock.stats().snapshot().renewals;
    until("the first hold is renewed twice or lost", || {
        first.is_lost() || lock.stats().snapshot().renewals >= renewed + 2
    })
    .await;
    assert!(!first.is_lost(), "its own primary is there");
    assert_eq!(first.release().await, ReleaseOutcome::Released);
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
