//! A holder learns in time that it holds no more.

use std::time::Duration;

use leaselock::{Mutex, ReleaseOutcome, Wait};
use tokio::time::{Instant, timeout};

use super::proxy::{Link, Proxy};
use super::{LONG_LEASE, PATIENCE, SHORT_LEASE, TokenTestbed, acquire, until_lost, waiting};

/// M9: within one renewal interval, long before the lease would have ended.
#[tokio::test]
async fn a_deleted_key_is_noticed_by_the_next_renewal() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let lease = Duration::from_secs(3);
    let guard = acquire(&process, &testbed, lease).await;
    testbed.delete(testbed.lock_key()).await;
    timeout(lease / 2, guard.lost().cancelled())
        .await
        .expect("lost fires with the first renewal, at a third of the lease");
    assert!(guard.is_lost());
    assert_eq!(guard.release().await, ReleaseOutcome::AlreadyLost);
    assert_eq!(process.stats().snapshot().lost, 1);
}

/// L1: the link swallows everything and breaks nothing.
#[tokio::test]
async fn lost_fires_before_anyone_else_can_hold() {
    let testbed = TokenTestbed::new().await;
    let proxy = Proxy::start(&crate::support::redis_url().await).await;
    let process = testbed.process_behind(&proxy.url()).await;
    let other = testbed.process().await;
    let guard = acquire(&process, &testbed, Duration::from_secs(1)).await;
    proxy.set(Link::Stalls);

    let name = testbed.name.clone();
    let other_holds_at = tokio::spawn(async move {
        let guard = other.acquire(&name, waiting(LONG_LEASE)).await;
        let granted_at = Instant::now();
        let _ = guard.expect("granted once the lease has ended").release().await;
        granted_at
    });
    let deadline = guard.deadline();
    until_lost(&guard).await;
    let lost_at = Instant::now();
    let lease_left_ms = testbed.lease_left_ms().await;
    assert!(lost_at >= deadline);
    assert!(lease_left_ms > 0, "the key expired before lost had fired");
    assert!(guard.is_lost());
    assert!(lost_at < other_holds_at.await.expect("the other process"));
    proxy.set(Link::Works);
}

/// L3: no alarm after a release.
#[tokio::test]
async fn lost_stays_silent_after_a_release() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let guard = acquire(&process, &testbed, SHORT_LEASE).await;
    let lost = guard.lost();
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    assert!(timeout(SHORT_LEASE * 2, lost.cancelled()).await.is_err());
    assert_eq!(process.stats().snapshot().lost, 0);
}

/// A hold that is lost does not keep its own process from acquiring anew.
#[tokio::test]
async fn after_a_loss_the_next_in_line_may_ask() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let lost = acquire(&process, &testbed, SHORT_LEASE).await;
    testbed.delete(testbed.lock_key()).await;
    let mut options = waiting(LONG_LEASE);
    options.wait = Wait::Until(Instant::now() + PATIENCE);
    let next = process.acquire(&testbed.name, options).await.expect("granted");
    assert!(lost.is_lost());
    assert!(next.fence() > lost.fence());
    drop(lost);
    assert!(testbed.value().await.is_some());
    assert_eq!(next.release().await, ReleaseOutcome::Released);
}
