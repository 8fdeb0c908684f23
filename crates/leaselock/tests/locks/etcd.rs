//! What only the locks on etcd promise, on real servers: places in the queue, and a cluster that
//! loses members.

use std::time::Duration;

use dev_servers::{EtcdOptions, EtcdServer};
use faulty_link::Trap;
use leaselock::{AcquireError, Guard, LeasedMutex, ReleaseOutcome};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::testbed::{Testbed, granted, granted_within, let_go, listed, name, queued, refused};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, at_once, fence_of, waiting, waiting_for};
use crate::support::{etcd_url, link_to};

/// What this machine may need, while other tests run, until a cluster has a leader again.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(20);

/// One more process.
async fn mutex(testbed: &Testbed) -> LeasedMutex {
    testbed.process(listed("etcd", "mutex")).await
}

/// M13, etcd#11456: whose place expired in the queue is not granted when those ahead have gone; it
/// stands at the end.
#[tokio::test]
async fn m13_a_place_that_expired_in_the_queue_is_no_grant() {
    let testbed = Testbed::new();
    let (holder, next) = (mutex(&testbed).await, mutex(&testbed).await);
    let held = granted(&holder, LONG_LEASE).await;

    let sleeper = mutex(&testbed).await;
    let (wakes, slept) = std::sync::mpsc::channel();
    let (asleep, is_asleep) = tokio::sync::oneshot::channel();
    let (got, grant) = tokio::sync::oneshot::channel();
    let sleepers_view = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let waiting = queued(&sleeper, SHORT_LEASE).await;
            asleep.send(()).expect("the test waits");
            // Nothing of this process runs until it is woken.
            slept.recv().expect("the test wakes it");
            got.send(waiting.await.expect("granted in the end")).expect("the test waits");
            // The guard is released over this runtime's connection.
            sleep(PATIENCE).await;
        });
    });
    is_asleep.await.expect("it has its place");
    let late = queued(&next, LONG_LEASE).await;
    let_go("etcd", held).await;
    // Behind the sleeper, so this shows that the sleeper's place has expired.
    let late =
        timeout(PATIENCE, late).await.expect("the sleeper's place expires").expect("granted");
    wakes.send(()).expect("it sleeps");
    let mut grant = grant;
    let early = timeout(SHORT_LEASE * 2, &mut grant).await;
    assert!(early.is_err(), "granted while another one holds");
    let fence = fence_of(&late);
    let_go("etcd", late).await;
    let grant = timeout(PATIENCE, grant).await.expect("its turn comes").expect("it runs");
    assert!(fence_of(&grant) > fence);
    drop(grant);
    drop(sleepers_view);
}

/// M5: an answer that is lost after the command ran leads to one hold, and one release frees it.
#[tokio::test]
async fn m5_a_lost_answer_makes_no_second_hold() {
    let testbed = Testbed::new();
    let proxy = link_to(&etcd_url().await).await;
    let behind = mutex(&testbed.with_etcd(proxy.url().to_owned())).await;
    let other = mutex(&testbed).await;
    for _ in 0..10 {
        let_go("etcd", granted(&behind, LONG_LEASE).await).await;
        proxy.trap(Trap::at_answer());
        let guard = granted(&behind, LONG_LEASE).await;
        refused(&other).await;
        proxy.trap(Trap::at_answer());
        let_go("etcd", guard).await;
        let next = other.acquire(&name(), at_once(LONG_LEASE)).await;
        let_go("etcd", next.expect("one release frees it")).await;
    }
}

/// M9: somebody deletes the key under the holder.
#[tokio::test]
async fn a_deleted_key_is_noticed_by_the_next_renewal() {
    let testbed = Testbed::new();
    let process = mutex(&testbed).await;
    let guard = granted(&process, Duration::from_secs(2)).await;
    let key = |text: String| base64(text.as_bytes());
    let from = format!("{}mutex/{} ", testbed.prefix, name());
    let to = format!("{}mutex/{}!", testbed.prefix, name());
    let body = serde_json::json!({ "key": key(from), "range_end": key(to) });
    let deleted = ask(&etcd_url().await, "kv/deleterange", &body).await.expect("an answer");
    assert_eq!(deleted["deleted"], "1", "{deleted}");
    timeout(PATIENCE, guard.lost().cancelled()).await.expect("lost fires");
    assert!(Instant::now() < guard.deadline(), "the deadline ended the hold, not the renewal");
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
}

/// Revisions start again with an empty cluster; fences do not.
#[tokio::test]
async fn fences_rise_over_a_loss_of_all_data() {
    let testbed = Testbed::new();
    let mut last = leaselock::Fence(0);
    for _ in 0..2 {
        let server = EtcdServer::start(EtcdOptions::temporary()).await.expect("etcd starts");
        let process = mutex(&testbed.with_etcd(server.url())).await;
        let guard = granted(&process, LONG_LEASE).await;
        assert!(fence_of(&guard) > last);
        last = fence_of(&guard);
        let_go("etcd", guard).await;
        server.stop().await;
    }
}

/// The leader is killed while one holds: nobody else gets the lock, the hold is renewed by the next
/// leader, and fences go on rising. Without a quorum nothing is granted, and the holder knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_survives_its_leader_and_refuses_without_a_quorum() {
    let members = EtcdServer::start_cluster(3).await.expect("a cluster");
    let urls: Vec<String> = members.iter().map(EtcdServer::url).collect();
    let testbed = Testbed::new().with_etcd(urls.join(","));
    let (first, second) = (mutex(&testbed).await, mutex(&testbed).await);

    let lease = Duration::from_secs(9);
    let held = granted(&first, lease).await;
    let leader = leader_of(&urls).await;
    members[leader].kill().await;
    let before = held.deadline();
    let contender = {
        let second = second.clone();
        tokio::spawn(async move { until_granted(&second, LONG_LEASE).await })
    };
    let renewed = || held.deadline() > before;
    let refused = || second.stats().snapshot().contended > 0;
    let since = Instant::now();
    while !(renewed() && refused()) {
        assert!(!contender.is_finished(), "two hold");
        assert!(!held.is_lost(), "the new leader renewed nothing");
        assert!(since.elapsed() < CLUSTER_PATIENCE, "no renewal, or nobody asked");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!contender.is_finished(), "two hold");
    let fence = fence_of(&held);
    let_go("etcd", held).await;
    let next = contender.await.expect("it runs");
    assert!(fence_of(&next) > fence);
    let_go("etcd", next).await;

    let held = until_granted(&first, Duration::from_secs(2)).await;
    let another = (leader + 1) % 3;
    members[another].kill().await;
    let refused = timeout(CLUSTER_PATIENCE, second.acquire(&name(), waiting(LONG_LEASE))).await;
    let refused = refused.expect("an answer in bounded time");
    assert!(matches!(refused, Err(AcquireError::Unavailable(_))), "{refused:?}");
    timeout(CLUSTER_PATIENCE, held.lost().cancelled()).await.expect("lost fires");
    drop(held);
}

/// While members elect a leader, an acquire may be refused: then it tries again.
async fn until_granted(process: &LeasedMutex, lease: Duration) -> Guard {
    let options = || waiting_for(lease, CLUSTER_PATIENCE);
    granted_within(CLUSTER_PATIENCE, process, options).await
}

/// The index of the leader among the members.
async fn leader_of(urls: &[String]) -> usize {
    let since = Instant::now();
    while since.elapsed() < CLUSTER_PATIENCE {
        for (index, url) in urls.iter().enumerate() {
            let status = ask(url, "maintenance/status", &serde_json::json!({})).await;
            let status = status.unwrap_or_default();
            if status["leader"].is_string() && status["leader"] == status["header"]["member_id"] {
                return index;
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the cluster has no leader");
}

/// Asks a member behind the locks' back, over its JSON gateway.
async fn ask(url: &str, path: &str, body: &Value) -> reqwest::Result<Value> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    client.post(format!("{url}/v3/{path}")).json(body).send().await?.json().await
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
