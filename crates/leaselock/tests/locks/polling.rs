//! C1, poll by poll: wherever an acquire is dropped, the name is free soon after.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures::poll;
use leaselock::{KINDS, LeasedMutex, ReleaseOutcome};
use tokio::task::yield_now;

use super::testbed::{Testbed, can_be_held, label, name};
use super::{LONG_LEASE, PATIENCE, until, waiting};
use crate::support::{link_to, redis_url};

/// Up to here every number of polls is tried, then every quarter more.
const EVERY_POLL_TO: u32 = 40;

/// An acquire has fewer than this, however slow its backend is.
const POLLS_MAX: u32 = 1_000_000;

/// Polls a future up to `polls` times, each time only after a wake-up, and drops it. Returns whether
/// it was ready.
async fn after_wakes(mut future: impl Future + Unpin, polls: u32) -> bool {
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match Pin::new(&mut future).poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Polls a future `polls` times, lets all other tasks run in between, and drops it. So it also stops
/// between two steps of the acquire's background tasks.
async fn after_turns(mut future: impl Future + Unpin, polls: u32) -> bool {
    for _ in 0..polls {
        if poll!(&mut future).is_ready() {
            return true;
        }
        yield_now().await;
    }
    false
}

/// Takes the name for another process, which is possible long before any lease is over.
async fn is_free(label: &str, other: &LeasedMutex) {
    assert!(PATIENCE < LONG_LEASE / 3);
    let guard = other.acquire(&name(), waiting(LONG_LEASE)).await;
    let guard = guard.unwrap_or_else(|error| panic!("{label}: it was leaked: {error}"));
    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
}

/// Each number of polls until the future is ready: while the name is free, while another process
/// holds it, and behind another caller of this process.
#[tokio::test]
async fn c1_an_acquire_may_be_dropped_after_any_of_its_wakes() {
    let testbed = Testbed::new();
    for (label, process, other) in testbed.pairs(|_| true).await {
        let acquire = || process.acquire(&name(), waiting(LONG_LEASE));
        let mut polls = 0;
        while !after_wakes(acquire(), polls).await {
            is_free(label, &other).await;
            polls += 1;
        }
        is_free(label, &other).await;
        // A table in memory answers at once: then there is no way to drop it on.
        let at_once = process.capabilities().backend == "local";
        assert!(at_once || polls >= 1, "{label}: it was not dropped on its way");

        for (holder_is_local, holder) in [(false, &other), (true, &process)] {
            // Dropped while the holder holds, and after its release.
            let mut polls = 0;
            loop {
                let guard = holder.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
                let contended = process.stats().snapshot().contended;
                let mut guard = Some(guard);
                let ready = tokio::join!(after_wakes(acquire(), polls), async {
                    // With so few polls it is dropped while it waits.
                    if polls > 1 {
                        until("it waits", || process.stats().snapshot().contended > contended)
                            .await;
                        let guard = guard.take().expect("held");
                        assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
                    }
                })
                .0;
                if let Some(guard) = guard {
                    assert!(!guard.is_lost(), "{label}");
                    assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
                }
                is_free(label, &other).await;
                if ready {
                    break;
                }
                polls += 1;
            }
            assert!(polls >= 1, "{label}: {holder_is_local}");
        }
        is_free(label, &process).await;
        until("the line is empty", || process.stats().snapshot().waiting_now == 0).await;
    }
}

/// An acquire is dropped after each number of turns of its background tasks; the name stays free. What was dropped sends
/// at most two more scripts to Redis, its acquire and a release, and then another process has the name.
#[tokio::test]
async fn c1_an_acquire_may_be_dropped_at_any_turn_of_its_tasks() {
    const ROUND_TRIPS_MAX: u64 = 2;
    let testbed = Testbed::new();
    for kind in KINDS.iter().filter(|kind| can_be_held(kind)) {
        let label = label(kind);
        let proxy = link_to(&redis_url().await).await;
        let process = testbed.process_behind(kind, proxy.url()).await;
        let other = testbed.process(kind).await;
        // The scripts are known to the server from here on.
        is_free(label, &process).await;
        let mut polls = 0;
        loop {
            let ready = after_turns(process.acquire(&name(), waiting(LONG_LEASE)), polls).await;
            let sent = proxy.counted();
            is_free(label, &other).await;
            let sent = proxy.counted() - sent;
            assert!(sent <= ROUND_TRIPS_MAX, "{label}: {sent} commands after {polls} polls");
            if ready {
                break;
            }
            polls += 1 + polls.saturating_sub(EVERY_POLL_TO) / 4;
            assert!(polls < POLLS_MAX, "{label}: it is never granted");
        }
        is_free(label, &process).await;
    }
}
