//! Conformance of countdown latches.

use std::time::Duration;

use leaselock::{Capabilities, Primitive};
use tokio::time::Instant;

use super::PATIENCE;
use super::conformance::conformance;
use super::testbed::{Testbed, label, name};

conformance! {
    of: |kind| kind.primitive == Primitive::CountdownLatch,
    kinds: [
        redis_countdown_latch: "countdown-latch" on "redis",
    ]
    {
        one thread: [
            d1_a_latch_opens_at_zero_and_stays_open
        ],
        two threads: [
        ]
    }
}

/// D1: waiters go on at zero, a late one at once, and there is nothing below zero.
async fn d1_a_latch_opens_at_zero_and_stays_open(kind: &'static Capabilities) {
    let testbed = Testbed::new();
    let label = label(kind);
    let (one, two) = (testbed.latch(kind).await, testbed.latch(kind).await);
    let soon = || Instant::now() + PATIENCE;
    assert_eq!(two.wait(&name(), Instant::now() + PATIENCE).await, Ok(true), "{label}: not set");
    assert_eq!(one.set(&name(), 3).await, Ok(true), "{label}");
    assert_eq!(two.set(&name(), 9).await, Ok(false), "{label}: it is running");
    let in_vain = two.wait(&name(), Instant::now() + Duration::from_millis(50)).await;
    assert_eq!(in_vain, Ok(false), "{label}");
    let waited_for = name();
    let waiter_one = one.wait(&waited_for, soon());
    let waiter_two = two.wait(&waited_for, soon());
    let counted = async {
        for left in [2, 1, 0, 0, 0] {
            assert_eq!(one.count_down(&name()).await, Ok(left), "{label}");
            assert_eq!(two.count(&name()).await, Ok(left), "{label}");
        }
    };
    let (first, second, ()) = tokio::join!(waiter_one, waiter_two, counted);
    assert_eq!((first, second), (Ok(true), Ok(true)), "{label}");
    assert_eq!(two.wait(&name(), soon()).await, Ok(true), "{label}: late");
    // It can be used again, and counted down by many at once.
    assert_eq!(two.set(&name(), 8).await, Ok(true), "{label}");
    let downs = (0..8).map(|number| if number % 2 == 0 { &one } else { &two });
    let downs = downs.map(|latch| async { latch.count_down(&name()).await });
    let mut left: Vec<u64> = futures::future::join_all(downs)
        .await
        .into_iter()
        .map(|left| left.expect("counted"))
        .collect();
    left.sort_unstable();
    assert_eq!(left, (0..8).collect::<Vec<_>>(), "{label}");
}
