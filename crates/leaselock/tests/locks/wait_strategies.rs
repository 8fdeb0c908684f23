//! The wait strategies without the queue of the process: the backend alone keeps the contenders apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::WaitStrategy::{Sleep200, Sleep2000, SpinThenYield, Yield, YieldThenSleep};
use leaselock::{AcquireOptions, Fencing, LeasedMutex, ReleaseOutcome, Wait};
use tokio::time::{Instant, sleep};

use super::testbed::{Testbed, name};
use super::{LONG_LEASE, waiting};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_wait_strategy_gets_the_lock_in_turn() {
    let testbed = Testbed::new();
    let mut kinds = tokio::task::JoinSet::new();
    for (label, process, _) in testbed.pairs(|kind| kind.fencing != Fencing::None).await {
        // Side by side, since most of it is sleeping.
        kinds.spawn(every_strategy(label, process));
    }
    kinds.join_all().await;
}

async fn every_strategy(label: &'static str, process: LeasedMutex) {
    for strategy in [Sleep200, Sleep2000, SpinThenYield, Yield, YieldThenSleep] {
        let holder = process.acquire(&name(), waiting(LONG_LEASE)).await.expect("granted");
        let inside = Arc::new(AtomicU64::new(0));
        let since = Instant::now();
        let mut contenders = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let (process, inside) = (process.clone(), inside.clone());
            contenders.spawn(async move {
                let until = Instant::now() + LONG_LEASE;
                let wait = Wait::Contend { until, strategy };
                let options = AcquireOptions { lease: LONG_LEASE, wait };
                let guard = process.acquire(&name(), options).await;
                let guard = guard.unwrap_or_else(|error| panic!("{label}: {error}"));
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{label}: two hold");
                sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(guard.release().await, ReleaseOutcome::Released, "{label}");
            });
        }
        sleep(Duration::from_millis(30)).await;
        assert_eq!(process.stats().snapshot().waiting_now, 0, "{label}: nobody is in line");
        assert_eq!(holder.release().await, ReleaseOutcome::Released, "{label}");
        contenders.join_all().await;
        let shortest = match strategy {
            Sleep200 => Duration::from_millis(190),
            Sleep2000 => Duration::from_millis(1_990),
            _ => Duration::ZERO,
        };
        assert!(since.elapsed() >= shortest, "{label}: {strategy:?}");
    }
}
