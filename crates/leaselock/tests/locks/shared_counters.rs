//! Conformance of shared counters.

use leaselock::{Capabilities, CommandError, Primitive};
use tokio::task::JoinSet;

use super::conformance::conformance;
use super::testbed::{Testbed, label, name};

conformance! {
    of: |kind| kind.primitive == Primitive::SharedCounter,
    kinds: [
        redis_counter: "counter" on "redis",
        zookeeper_counter: "counter" on "zookeeper",
    ]
    {
        one thread: [
        ],
        two threads: [
            counters_lose_nothing
        ]
    }
}

/// No update of a counter is lost, however it is made, and what does not fit is refused.
async fn counters_lose_nothing(kind: &'static Capabilities) {
    const TASKS: i64 = 6;
    const ROUNDS: i64 = 20;
    let testbed = Testbed::new();
    let label = label(kind);
    let counter = testbed.counter(kind).await;
    assert_eq!(counter.get(&name()).await, Ok(0), "{label}");
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let counter = testbed.counter(kind).await;
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                if number % 2 == 0 {
                    counter.add(&name(), 1).await.expect("added");
                    continue;
                }
                loop {
                    let now = counter.get(&name()).await.expect("read");
                    let set = counter.compare_and_set(&name(), now, now + 1).await;
                    if set.expect("compared") {
                        break;
                    }
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(counter.get(&name()).await, Ok(TASKS * ROUNDS), "{label}");
    assert_eq!(counter.add(&name(), -2 * TASKS * ROUNDS).await, Ok(-TASKS * ROUNDS), "{label}");
    // Beyond what a floating-point number holds exactly.
    let (high, higher) = (i64::MAX - 1, i64::MAX);
    assert_eq!(counter.compare_and_set(&name(), -TASKS * ROUNDS, high).await, Ok(true));
    assert_eq!(counter.compare_and_set(&name(), higher, 0).await, Ok(false), "{label}");
    assert_eq!(counter.add(&name(), 1).await, Ok(higher), "{label}");
    let refused = counter.add(&name(), 1).await;
    assert!(matches!(refused, Err(CommandError::Refused(_))), "{label}: {refused:?}");
    assert_eq!(counter.get(&name()).await, Ok(higher), "{label}");
}
