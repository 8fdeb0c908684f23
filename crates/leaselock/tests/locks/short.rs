//! The short way: from a URL to locks by name.

use std::error::Error;
use std::time::Duration;

use leaselock::redis::ConnectError;
use leaselock::{AcquireError, LEASE_MIN, ReleaseOutcome};
use redis::RedisError;

use super::shared;
use super::testbed::lazily;
use crate::support::{own_redis, redis_url, unique};

#[tokio::test]
async fn a_url_is_enough_for_a_lock() {
    let servers = own_redis(1, &[]).await;
    let locks = leaselock::redis::connect(&servers[0].tcp_url()).await.expect("connected");
    let guard = locks.lock("nightly:report").await.expect("granted");
    assert!(guard.fence().is_some());
    // Another process is kept out; another name is free.
    let others = leaselock::redis::connect(&servers[0].tcp_url()).await.expect("connected");
    assert!(others.try_lock("nightly:report").await.expect("asked").is_none());
    let late = others.clone().with_wait_max(Duration::from_millis(50)).lock("nightly:report").await;
    assert_eq!(late.err(), Some(AcquireError::TimedOut));
    let other = others.try_lock("another").await.expect("asked").expect("free");
    // A waiter is served, whatever its patience.
    let others = others.with_wait_max(Duration::MAX);
    let waits = tokio::spawn(async move { others.lock("nightly:report").await });
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    let next = waits.await.expect("no panic").expect("granted");
    assert_eq!(next.release().await, ReleaseOutcome::Released);
    assert_eq!(other.release().await, ReleaseOutcome::Released);
    assert_eq!(locks.mutex().stats().snapshot().released, 1);
}

#[tokio::test]
async fn what_cannot_be_locked_says_why() {
    let bad = leaselock::redis::connect("http://127.0.0.1").await.err();
    assert!(matches!(bad, Some(ConnectError::Address(_))), "{bad:?}");
    let closed = leaselock::redis::connect("redis://127.0.0.1:1").await.err();
    assert!(matches!(closed, Some(ConnectError::NoAnswer(_))), "{closed:?}");
    let redis = shared(&redis_url().await, redis_connection::Options::default());
    let locks = leaselock::redis::locks(&redis, &unique("short")).expect("a prefix");
    let refused = locks.lock("two words").await.err();
    assert!(matches!(refused, Some(AcquireError::InvalidName(_))), "{refused:?}");
}

#[tokio::test]
async fn an_error_keeps_the_error_of_the_server_as_its_source() {
    let locks = leaselock::redis::locks(&lazily("redis://127.0.0.1:1"), "away:").expect("a prefix");
    let error = locks.with_lease(LEASE_MIN).lock("a").await.expect_err("nobody is there");
    let mut next: Option<&(dyn Error + 'static)> = Some(&error);
    let mut sources = std::iter::from_fn(|| {
        let this = next?;
        next = this.source();
        Some(this)
    });
    assert!(sources.any(|source| source.is::<RedisError>()), "{error:?}");
}
