//! A holder learns in time that it holds no more.

use leaselock::{Mutex, ReleaseOutcome};
use tokio::time::timeout;

use super::{LONG_LEASE, SHORT_LEASE, TokenTestbed, acquire};

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
    let next = acquire(&process, &testbed, LONG_LEASE).await;
    assert!(lost.is_lost());
    assert!(next.fence() > lost.fence());
    drop(lost);
    assert!(testbed.value().await.is_some());
    assert_eq!(next.release().await, ReleaseOutcome::Released);
}
