//! Who waits, in which order, for how long, and what it costs the server.

use std::time::Duration;

use futures::poll;
use leaselock::{AcquireError, AcquireOptions, Mutex, ReleaseOutcome, WAITERS_MAX, Wait};
use tokio::time::{Instant, sleep};

use super::proxy::{Link, Proxy};
use super::{LONG_LEASE, PATIENCE, TokenTestbed, acquire, at_once, until, waiting};

fn waiting_until(deadline: Instant) -> AcquireOptions {
    let wait = Wait::Until(deadline);
    AcquireOptions { lease: LONG_LEASE, wait }
}

/// W3, W7: the number of waiters makes no difference to the server.
#[tokio::test]
async fn only_one_contender_of_a_process_asks_the_server() {
    const WAITERS: u64 = 500;
    let testbed = TokenTestbed::new().await;
    let proxy = Proxy::start(&crate::support::redis_url().await).await;
    let crowd = testbed.process_behind(&proxy.url()).await;
    let holder = acquire(&testbed.process().await, &testbed, LONG_LEASE).await;
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let (crowd, name) = (crowd.clone(), testbed.name.clone());
        waiters.spawn(async move {
            let options = waiting_until(Instant::now() + LONG_LEASE);
            let guard = crowd.acquire(&name, options).await.expect("granted");
            guard.release().await
        });
    }
    until("all wait", || crowd.stats().snapshot().waiting_now == WAITERS - 1).await;
    let (since, asked_before) = (Instant::now(), proxy.scripts_run());
    sleep(Duration::from_millis(500)).await;
    let asked = proxy.scripts_run() - asked_before;
    // Pauses are at least half of their longest step, but a few short ones come first.
    let asked_max = since.elapsed().as_millis() as u64 / 12 + 6;
    assert!((1..=asked_max).contains(&asked), "{asked} commands, {asked_max} at most");

    let asked_before = proxy.scripts_run();
    assert_eq!(holder.release().await, ReleaseOutcome::Released);
    waiters.join_all().await;
    // One acquire and one release each; a renewal or a last poll may have slipped in between.
    let asked = proxy.scripts_run() - asked_before;
    assert!(asked <= 2 * WAITERS + 5, "{asked} commands for {WAITERS} holds");
}

#[tokio::test]
async fn what_this_process_holds_is_refused_without_asking_the_server() {
    let testbed = TokenTestbed::new().await;
    let proxy = Proxy::start(&crate::support::redis_url().await).await;
    let process = testbed.process_behind(&proxy.url()).await;
    let guard = acquire(&process, &testbed, LONG_LEASE).await;
    let asked_before = proxy.scripts_run();
    for _ in 0..100 {
        let refused = process.acquire(&testbed.name, at_once(LONG_LEASE)).await;
        assert!(matches!(refused, Err(AcquireError::Busy)), "{refused:?}");
    }
    assert_eq!(proxy.scripts_run(), asked_before);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    assert_eq!(process.stats().snapshot().busy, 100);
}

#[tokio::test]
async fn the_line_has_an_end() {
    let testbed = TokenTestbed::new().await;
    let process = testbed.process().await;
    let guard = acquire(&process, &testbed, LONG_LEASE).await;
    let mut line = Vec::new();
    for _ in 0..WAITERS_MAX {
        let options = waiting_until(Instant::now() + LONG_LEASE);
        let mut waiter = process.acquire(&testbed.name, options);
        assert!(poll!(&mut waiter).is_pending());
        line.push(waiter);
    }
    let refused = process.acquire(&testbed.name, waiting(LONG_LEASE)).await;
    assert!(matches!(refused, Err(AcquireError::TooManyWaiters)), "{refused:?}");
    assert_eq!(process.stats().snapshot().waiting_now, WAITERS_MAX);
    drop(line);
    assert_eq!(process.stats().snapshot().waiting_now, 0);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_and_not_a_hang() {
    let testbed = TokenTestbed::new().await;
    let proxy = Proxy::start(&crate::support::redis_url().await).await;
    let process = testbed.process_behind(&proxy.url()).await;
    let guard = acquire(&process, &testbed, LONG_LEASE).await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    proxy.set(Link::Refuses);
    let failed = process.acquire(&testbed.name, waiting_until(Instant::now() + LONG_LEASE)).await;
    assert!(matches!(failed, Err(AcquireError::Unavailable(_))), "{failed:?}");
    assert_eq!(process.stats().snapshot().unavailable, 1);
    proxy.set(Link::Works);
    let since = Instant::now();
    let guard = loop {
        match process.acquire(&testbed.name, waiting(LONG_LEASE)).await {
            Ok(guard) => break guard,
            Err(_) => assert!(since.elapsed() < PATIENCE * 2, "it never came back"),
        }
    };
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}
