//! A lock that outlives the tokio runtime on which it was made.

use leaselock::{Guard, LeasedMutex, ReleaseOutcome};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use super::testbed::{Testbed, granted, is_refused, let_go, listed, queued};
use super::{LONG_LEASE, SHORT_LEASE, TokenTestbed, kinds, until_lost};

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// A lock that is made and used once on a runtime of its own, which then ends.
fn from_an_ended_runtime<T>(make: impl Future<Output = T>) -> T {
    runtime().block_on(make)
}

/// Waits for three leases, in which nobody else may hold what `guard` holds.
async fn holds_beyond_its_lease(guard: &Guard, other: &LeasedMutex) {
    let since = Instant::now();
    while since.elapsed() < SHORT_LEASE * 3 {
        assert!(!guard.is_lost(), "the hold was not renewed");
        assert!(is_refused(other).await, "two holders");
        sleep(SHORT_LEASE / 10).await;
    }
}

#[test]
fn a_lock_from_an_ended_runtime_renews_its_holds() {
    let (testbed, process) = from_an_ended_runtime(async {
        let testbed = Testbed::new();
        let process = testbed.process(listed("redis", "token")).await;
        let_go("token", granted(&process, LONG_LEASE).await).await;
        (testbed, process)
    });
    runtime().block_on(async {
        let other = testbed.process(listed("redis", "token")).await;
        let guard = granted(&process, SHORT_LEASE).await;
        holds_beyond_its_lease(&guard, &other).await;
        // What is dropped is given back, too.
        drop(guard);
        let_go("token", granted(&other, LONG_LEASE).await).await;
    });
}

/// When the runtime that opened a session with ZooKeeper ends, the session ends, and the task that deletes old nodes ends.
/// The next acquire starts both again.
#[test]
fn a_lock_from_an_ended_runtime_opens_a_session() {
    let kind = listed("zookeeper", "sequential");
    let (testbed, process) = from_an_ended_runtime(async {
        let testbed = Testbed::new();
        let process = testbed.process(kind).await;
        let_go("sequential", kinds::granted(&process, LONG_LEASE).await).await;
        (testbed, process)
    });
    let one_thread = Builder::new_current_thread().enable_all().build().expect("a runtime");
    one_thread.block_on(async {
        let guard = kinds::granted(&process, SHORT_LEASE).await;
        // Nothing is renewed meanwhile, and nothing is released afterwards.
        std::thread::sleep(SHORT_LEASE * 2);
        assert!(guard.is_lost());
        std::mem::forget(guard);
        let other = testbed.process(kind).await;
        let_go("sequential", kinds::granted(&other, LONG_LEASE).await).await;
    });
}

#[test]
fn a_lock_from_an_ended_runtime_is_notified() {
    let (testbed, process) = from_an_ended_runtime(async {
        let testbed = Testbed::new();
        let token = listed("redis", "token");
        let (process, other) = (testbed.process(token).await, testbed.process(token).await);
        // It waits once, so that its subscriber has a connection.
        let holder = granted(&other, LONG_LEASE).await;
        let waits = queued(&process, LONG_LEASE).await;
        let_go("token", holder).await;
        let_go("token", waits.await.expect("no panic")).await;
        (testbed, process)
    });
    runtime().block_on(async {
        let other = testbed.process(listed("redis", "token")).await;
        let before = process.stats().snapshot().handed_over_by_others;
        let mut rounds = 0;
        while process.stats().snapshot().handed_over_by_others == before {
            rounds += 1;
            assert!(rounds < 20, "no release notified the waiter");
            let holder = granted(&other, LONG_LEASE).await;
            let waits = queued(&process, LONG_LEASE).await;
            // Meanwhile it connects for notifications.
            sleep(SHORT_LEASE / 3).await;
            let_go("token", holder).await;
            let_go("token", waits.await.expect("no panic")).await;
        }
    });
}

#[test]
fn a_hold_is_lost_when_its_runtime_ends() {
    let first = runtime();
    let (process, guard) = first.block_on(async {
        let testbed = TokenTestbed::new().await;
        let process = testbed.process().await;
        let guard = granted(&process, LONG_LEASE).await;
        (process, guard)
    });
    assert!(!guard.is_lost());
    drop(first);
    assert!(guard.is_lost(), "nothing renews it");
    runtime().block_on(async {
        until_lost(&guard).await;
        assert_eq!(process.stats().snapshot().lost, 1);
        // The release still finds the hold, whose lease has not ended.
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    });
}
