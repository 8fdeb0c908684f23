//! Hand-over and combining inside one process; needs no server.
//!
//! `cargo run -p leaselock --example in_one_process`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::combine::{CombineOptions, Combiner, each};
use leaselock::{AcquireOptions, LockName, Wait, local};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

const CALLERS: u64 = 100;
const LEASE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tasks = TaskTracker::new();
    let mutex = local::mutex(&local::Names::default(), &tasks);
    let name = LockName::new("example")?;
    let until = Instant::now() + Duration::from_secs(30);

    // Each caller has a guard of its own; most of them get the hold from the caller before.
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let mutex = mutex.clone();
        let name = name.clone();
        callers.spawn(async move {
            let options = AcquireOptions { lease: LEASE, wait: Wait::Until(until) };
            let guard = mutex.acquire(&name, options).await?;
            tokio::task::yield_now().await;
            let _ = guard.release().await;
            Ok::<_, leaselock::AcquireError>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let stats = mutex.stats().snapshot();
    println!("{} guards, {} of them handed over", stats.acquired, stats.handed_over);

    // Combining runs many operations under one hold.
    let sum = Arc::new(AtomicU64::new(0));
    let total = Arc::clone(&sum);
    let add = each(move |_held, number: u64| {
        let total = Arc::clone(&total);
        async move { total.fetch_add(number, Ordering::Relaxed) + number }
    });
    let options = CombineOptions { lease: LEASE, batch_max: 64, queued_max: 1_000 };
    let combiner = Combiner::start(mutex.clone(), name, options, add, &tasks);
    let numbers = (1..=CALLERS).map(|number| combiner.submit(number, until));
    for answer in futures::future::join_all(numbers).await {
        answer?;
    }
    let holds = mutex.stats().snapshot().acquired - stats.acquired;
    println!(
        "the sum is {}, with {holds} holds for {CALLERS} operations",
        sum.load(Ordering::Relaxed)
    );
    Ok(())
}
