//! The connection to Redis beneath the locks: which server it believes, and what it says of a slot that
//! is open.

use std::time::Duration;

use dev_servers::{PRIMARY, RedisCluster, RedisClusterOptions};
use futures::future::join_all;
use leaselock::{AcquireError, redis as redis_locks};
use redis::{AsyncCommands, RedisResult};
use redis_connection::{Options, Slot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::failovers::{owner, slot};
use super::testbed::name;
use super::{LONG_LEASE, at_once, connect, shared, waiting};
use crate::support::{eventually, own_cluster, own_sentinels, unique};

/// A connection that gives up soon.
const HASTY: Options = Options {
    connect_timeout: Duration::from_millis(500),
    command_timeout: Duration::from_millis(500),
    retry_max: Duration::from_millis(1_500),
};

/// Callers at once, and how long they may take together: each alone takes about four seconds.
const CROWD: usize = 100;
const CROWD_MAX: Duration = Duration::from_secs(30);

#[tokio::test]
async fn one_sentinel_of_three_leads_to_no_other_primary() {
    let group = own_sentinels().await;
    let primary = group.primary().await.expect("a primary");
    let other = (0..group.servers.len()).find(|server| *server != primary).expect("a replica");
    let mut redis = shared(&group.url(), HASTY);
    let () = redis.set("a", "before").await.expect("the primary takes it");

    // Two Sentinels are silent. The last one names a server that is no successor of the primary.
    for sentinel in &group.sentinels[1..] {
        assert!(sentinel.pause());
    }
    let () = group.servers[other].run(&["REPLICAOF", "NO", "ONE"]).await.expect("another primary");
    let (last, port) = (&group.sentinels[0], group.servers[other].port().to_string());
    let masters: Vec<Vec<String>> = last.run(&["SENTINEL", "MASTERS"]).await.expect("asked");
    let watched = &*masters[0][1];
    let () = last.run(&["SENTINEL", "REMOVE", watched]).await.expect("removed");
    let monitor = ["SENTINEL", "MONITOR", watched, "127.0.0.1", &port, "1"];
    let () = last.run(&monitor).await.expect("monitored");
    group.servers[primary].kill().await;

    // The broken connection is noticed by the first command, whose result is unknown.
    let _: Result<(), _> = redis.set("a", "lost").await;
    let written: Result<(), _> = redis.set("a", "elsewhere").await;
    let there: Option<String> = group.servers[other].run(&["GET", "a"]).await.expect("asked");
    assert_eq!(there.as_deref(), Some("before"), "one Sentinel of three was believed");
    assert!(written.is_err(), "no primary is known");
    // A majority is believed.
    for sentinel in &group.sentinels[1..] {
        assert!(sentinel.resume());
    }
    eventually("the other Sentinels to name another primary", || async {
        redis.clone().set::<_, _, ()>("a", "after").await.ok()
    })
    .await;
    group.stop().await;
}

/// The primary stands still, and no Sentinel names another one for long. Callers that look for a primary one after the
/// other would need more than a minute.
#[tokio::test]
async fn callers_share_the_look_for_a_primary_that_is_away() {
    let group = own_sentinels().await;
    for sentinel in &group.sentinels {
        let set = ["SENTINEL", "SET", PRIMARY, "down-after-milliseconds", "60000"];
        let () = sentinel.run(&set).await.expect("set");
    }
    let primary = group.primary().await.expect("a primary");
    let mut redis = shared(&group.url(), Options::default());
    let () = redis.set("a", "before").await.expect("the primary takes it");
    assert!(group.servers[primary].pause());
    // Three unanswered commands in a row close the connection.
    for _ in 0..3 {
        let answer: RedisResult<String> = redis.get("a").await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let asked = (0..CROWD).map(|_| {
        let mut redis = redis.clone();
        async move {
            let answer: RedisResult<String> = redis.get("a").await;
            answer
        }
    });
    let answers = timeout(CROWD_MAX, join_all(asked)).await.expect("nobody waits for the others");
    assert!(answers.iter().all(Result::is_err), "{answers:?}");
    assert!(group.servers[primary].resume());
    group.stop().await;
}

/// Waits until three primaries have this host in their names: a node that answers late is missing for a moment.
async fn expect_hosts(url: &str, host: &str) {
    eventually("three primaries with this host", || async {
        let primaries = shared(url, HASTY).primaries().await.ok()?;
        let hosts = primaries.iter().filter_map(|primary| primary.name().rsplit_once(':'));
        hosts.map(|(host, _)| host).eq([host; 3]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_map_of_a_cluster_has_the_endpoints_that_its_nodes_prefer() {
    let lines = ["cluster-announce-hostname localhost", "cluster-preferred-endpoint-type hostname"];
    let options = RedisClusterOptions {
        replicas: 0,
        extra_lines: lines.map(str::to_owned).to_vec(),
        ..RedisClusterOptions::default()
    };
    let cluster = RedisCluster::start(options).await.expect("it starts");
    expect_hosts(&cluster.url(), "localhost").await;
    let set = async |name: &str, value: &str| {
        for node in &cluster.nodes {
            let () = node.run(&["CONFIG", "SET", name, value]).await.expect("set");
        }
    };
    set("cluster-preferred-endpoint-type", "ip").await;
    expect_hosts(&cluster.url(), "127.0.0.1").await;
    // As the node that is asked is known here.
    set("cluster-preferred-endpoint-type", "unknown-endpoint").await;
    let by_name = cluster.url().replace("127.0.0.1", "localhost");
    expect_hosts(&by_name, "localhost").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_stays_open_is_named_and_serves_what_it_can() {
    let cluster = own_cluster(0).await;
    let (url, prefix) = (cluster.url(), format!("{}:", unique("open")));
    let (redis, tasks) = (connect(&url).await, &TaskTracker::new());
    let token = redis_locks::token::mutex(redis.clone(), &prefix, tasks).expect("a prefix");
    let plain = redis_locks::plain::mutex(redis.clone(), &prefix, tasks).expect("a prefix");
    // Its keys exist while it is held.
    let held = token.acquire(&name(), at_once(LONG_LEASE)).await.expect("free");

    let (from, number) = (owner(&cluster).await, slot().to_string());
    let to = (from + 1) % 3;
    let (source, target) =
        (cluster.id(from).await.expect("an id"), cluster.id(to).await.expect("an id"));
    let set = async |node: usize, words: &[&str]| {
        let command = [&["CLUSTER", "SETSLOT", &number], words].concat();
        let () = cluster.nodes[node].run(&command).await.expect("set");
    };
    set(to, &["IMPORTING", &source]).await;
    set(from, &["MIGRATING", &target]).await;

    let refused = token.acquire(&other_name(), waiting(LONG_LEASE)).await;
    let Err(AcquireError::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.to_string().contains(&format!("slot {number} is open")), "{why}");
    // From now on each command is refused at once, and says why.
    let mut scripted = redis.clone();
    let keys = ["{thing:1}:a", "{thing:1}:b"];
    let script = redis_connection::Script::new("return 1");
    let error =
        script.run::<i64>(&mut scripted, &keys, &[""; 0]).await.expect_err("two absent keys");
    assert!(error.to_string().contains("redis-cli --cluster fix"), "{error}");
    // One key is served by the node that receives the slot.
    let single = plain.acquire(&other_name(), at_once(LONG_LEASE)).await.expect("one key");
    let _ = single.release().await;
    assert_eq!(Slot::of(b"thing:1").number(), slot());

    cluster.move_slot(slot(), to, Duration::ZERO).await.expect("the move is finished");
    let free = token.acquire(&other_name(), waiting(LONG_LEASE)).await.expect("served again");
    let _ = free.release().await;
    let _ = held.release().await;
}

/// Another name in the slot of [`name`].
fn other_name() -> leaselock::LockName {
    leaselock::LockName::new("{thing:1}:other").expect("a name")
}
