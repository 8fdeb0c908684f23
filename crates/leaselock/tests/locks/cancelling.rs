//! Whatever is dropped, wherever it is dropped, nothing stays held.

use std::future::Future;
use std::pin::Pin;

use futures::poll;
use leaselock::{LeasedMutex, ReleaseOutcome};
use rand::RngExt;

use super::testbed::granted;
use super::{LONG_LEASE, TokenTestbed, connect, until};
use crate::support::random;

/// Polls a future `polls` times, or until it is ready, and drops it.
async fn poll_and_drop<F: Future>(mut future: Pin<Box<F>>, polls: u32) {
    for _ in 0..polls {
        if poll!(&mut future).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// The line is empty and the lock can be had at once.
async fn nothing_is_left(process: &LeasedMutex, testbed: &TokenTestbed) {
    testbed.wait_until_free().await;
    until("the line is empty", || process.stats().snapshot().waiting_now == 0).await;
    let guard = granted(process, LONG_LEASE).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// C4: a release that is given up half-way is finished in the background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_release_still_frees() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let mut random = random();
    for _ in 0..100 {
        let guard = granted(&process, LONG_LEASE).await;
        poll_and_drop(Box::pin(guard.release()), random.random_range(0..60)).await;
    }
    nothing_is_left(&process, &testbed).await;
}

/// C3: in a panic, and on a thread that knows of no runtime.
#[tokio::test]
async fn a_guard_dropped_in_a_panic_or_off_the_runtime_frees() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let guard = granted(&process, LONG_LEASE).await;
    let panicked = tokio::spawn(async move {
        let _guard = guard;
        panic!("meant to happen: the holder panics");
    });
    assert!(panicked.await.is_err());
    nothing_is_left(&process, &testbed).await;

    let guard = granted(&process, LONG_LEASE).await;
    let thread = std::thread::spawn(move || drop(guard));
    until("the thread ended", || thread.is_finished()).await;
    assert!(thread.join().is_ok());
    nothing_is_left(&process, &testbed).await;
}

/// C3: after its runtime has gone a guard can still be dropped; its lease ends by itself.
#[test]
fn a_guard_may_outlive_its_runtime() {
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    let first = runtime();
    let (testbed, guard, process) = first.block_on(async {
        let testbed = TokenTestbed::new().await;
        let process = testbed.process().await;
        let guard = granted(&process, LONG_LEASE).await;
        (testbed, guard, process)
    });
    drop(first);
    drop(guard);
    assert_eq!(process.stats().snapshot().left_to_expire, 1);
    runtime().block_on(async {
        let redis = connect(&crate::support::redis_url().await).await;
        let testbed = TokenTestbed { redis, ..testbed };
        assert!(testbed.lease_left_ms().await > 0);
        testbed.delete(testbed.lock_key()).await;
    });
}
