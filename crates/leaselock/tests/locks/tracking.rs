//! A holder hears of its loss from the server, long before the next renewal.

use std::time::Duration;

use leaselock::ReleaseOutcome;
use redis::AsyncCommands;
use redis_connection::SharedConnection;

use super::support::{eventually, link_to, own_redis};
use super::testbed::{Testbed, lazily, listed, name};
use super::{LONG_LEASE, PATIENCE, at_once, until, until_lost, waiting};

/// The kinds whose keys have one holder and whose processes have a subscriber.
const TRACKED: [&str; 5] = ["token", "reentrant", "fair", "read-write", "multi"];

/// What happens to the key of a hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Deleted,
    Overwritten,
    Expired,
    Flushed,
}

/// The key of the only hold.
async fn hold_key(redis: &mut SharedConnection) -> String {
    let keys: Vec<String> = redis.keys("*lock:*").await.expect("KEYS");
    keys.into_iter().next().expect("a hold")
}

async fn meet(redis: &mut SharedConnection, fate: Fate) {
    let key = hold_key(redis).await;
    let () = match fate {
        Fate::Deleted => redis.del(key).await,
        Fate::Overwritten => redis.set(key, super::FOREIGNER).await,
        Fate::Expired => redis.pexpire(key, 1).await,
        Fate::Flushed => redis::cmd("FLUSHALL").query_async(redis).await,
    }
    .expect("done");
}

/// Whether the server tracks a key.
async fn is_tracked(redis: &SharedConnection) -> bool {
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("stats").query_async(&mut redis.clone()).await.expect("INFO");
    !info.contains("tracking_total_keys:0\r")
}

async fn until_tracked(redis: &SharedConnection) {
    eventually("the hold to be tracked", || async { is_tracked(redis).await.then_some(()) }).await;
}

/// Each tracked kind loses its key in four ways. The lease is 30 s, so no renewal tells the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_a_holder_is_told_at_once_that_its_key_has_gone() {
    let server = own_redis(1, &[]).await.remove(0);
    let mut redis = lazily(&server.url());
    for kind in TRACKED {
        for fate in [Fate::Deleted, Fate::Overwritten, Fate::Expired, Fate::Flushed] {
            let label = format!("{kind}, {fate:?}");
            let testbed = Testbed::new();
            let process = testbed.process_behind(listed("redis", kind), &server.tcp_url()).await;
            let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
            until_tracked(&redis).await;
            assert!(!guard.lost().is_cancelled(), "{label}");
            meet(&mut redis, fate).await;
            until_lost(&guard).await;
            until("the loss is counted", || process.stats().snapshot().lost == 1).await;
            let stats = process.stats().snapshot();
            assert_eq!((stats.renewals, stats.renew_failures), (0, 0), "{label}");
            assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost, "{label}");
            let () = redis::cmd("FLUSHALL").query_async(&mut redis).await.expect("FLUSHALL");
        }
    }
}

/// A server that knows no RESP3: the renewal finds out, as before.
#[tokio::test]
async fn m9_without_resp3_the_next_renewal_finds_out() {
    let server = own_redis(1, &["rename-command HELLO \"\""]).await.remove(0);
    let testbed = Testbed::new();
    let process = testbed.process_behind(listed("redis", "token"), &server.tcp_url()).await;
    let lease = Duration::from_secs(3);
    let guard = process.acquire(&name(), waiting(lease)).await.expect("granted");
    let mut redis = lazily(&server.url());
    until("a renewal", || process.stats().snapshot().renewals >= 1).await;
    assert!(!is_tracked(&redis).await);
    meet(&mut redis, Fate::Deleted).await;
    until_lost(&guard).await;
    assert_eq!(process.stats().snapshot().renew_failures, 1);
}

/// The connection breaks twice: once with the hold, and once the key has gone meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m11_a_holder_hears_after_a_broken_connection_that_its_key_has_gone() {
    let testbed = Testbed::new();
    let server = own_redis(1, &[]).await.remove(0);
    let proxy = link_to(&server.tcp_url()).await;
    let kind = listed("redis", "token");
    let process = testbed.process_behind(kind, proxy.url()).await;
    let guard = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let mut redis = lazily(&server.url());
    until_tracked(&redis).await;
    let key = hold_key(&mut redis).await;
    proxy.cut();
    proxy.mend();
    let other = testbed.process_behind(kind, &server.tcp_url()).await;
    assert!(other.acquire(&name(), at_once(LONG_LEASE)).await.is_err(), "it is still held");
    assert!(!guard.is_lost());
    proxy.cut();
    let () = redis.del(key).await.expect("DEL");
    let next = other.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    proxy.mend();
    until_lost(&guard).await;
    let stats = process.stats().snapshot();
    assert_eq!((stats.renewals, stats.renew_failures), (0, 0));
    assert!(next.fence() > guard.fence());
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    assert!(PATIENCE < LONG_LEASE / 3, "no renewal was due");
}
