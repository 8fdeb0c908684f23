//! Entering a hold again, for the kinds that allow it.

use futures::poll;
use leaselock::{AcquireError, Capabilities, ReleaseOutcome};

use super::hold_and_release;
use crate::testbed::{Testbed, name, refused};
use crate::{LONG_LEASE, waiting};

/// The owner comes in again, and the name is free with the last one out.
pub async fn only_a_reentrant_kind_lets_its_owner_in_again(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let (label, process, other) = testbed.pair(kind).await;
    let outer = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    let inner = outer.enter_again().await;
    if !process.capabilities().reentrant {
        let refused = matches!(inner, Err(AcquireError::InvalidOptions(_)));
        assert!(refused, "{label}: {inner:?}");
        return;
    }
    let inner = inner.expect("the owner may enter again");
    assert_eq!(inner.fence(), outer.fence(), "{label}");
    for last in [outer, inner] {
        refused(&other).await;
        assert_eq!(last.release().await, ReleaseOutcome::Released, "{label}");
    }
    hold_and_release(label, &other).await;
}

/// A hold that its owner has twice goes to the next in line when both are given back, not before.
pub async fn a_hold_that_was_entered_again_is_not_handed_over(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let (label, process, _other) = testbed.pair(kind).await;
    if !process.capabilities().reentrant {
        return;
    }
    let ahead = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
    // The second one asks while the third one waits behind it, so it has fences to pass on.
    let mut second = process.acquire(&name(), waiting(LONG_LEASE));
    let mut third = process.acquire(&name(), waiting(LONG_LEASE));
    assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending(), "{label}");
    assert_eq!(ahead.release().await, ReleaseOutcome::Released, "{label}");
    let outer = second.await.expect("granted");
    let inner = outer.enter_again().await.expect("the owner may enter again");
    assert_eq!(outer.release().await, ReleaseOutcome::Released, "{label}");
    assert!(poll!(&mut third).is_pending(), "{label}: two holders");
    assert_eq!(inner.release().await, ReleaseOutcome::Released, "{label}");
    let last = third.await.expect("granted");
    assert_eq!(last.release().await, ReleaseOutcome::Released, "{label}");
}
