//! W5: whether every client gets its share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leaselock::ReleaseOutcome;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::testbed::{Testbed, listed, name};
use super::{LONG_LEASE, waiting_for};

const CLIENTS_PER_PROCESS: usize = 6;
/// How many holds all clients have together.
const HOLDS: u64 = 180;
const SECTION: Duration = Duration::from_millis(10);

/// Jain's fairness index: 1 when all shares are equal, 1/n when one of n has everything.
fn jain(shares: &[u64]) -> f64 {
    let (mut sum, mut squares) = (0.0, 0.0);
    for share in shares {
        let share = *share as f64;
        sum += share;
        squares += share * share;
    }
    sum * sum / (shares.len() as f64 * squares)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w5_fair_serves_the_clients_of_two_processes_alike() {
    let testbed = Testbed::new();
    let served = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..2 {
        let process = testbed.process(listed("redis", "fair")).await;
        for _ in 0..CLIENTS_PER_PROCESS {
            let (process, served) = (process.clone(), Arc::clone(&served));
            clients.spawn(async move {
                let mut mine = 0_u64;
                loop {
                    let options = waiting_for(LONG_LEASE, LONG_LEASE * 2);
                    let guard = process.acquire(&name(), options).await.expect("granted");
                    let counts = served.fetch_add(1, Ordering::SeqCst) < HOLDS;
                    if counts {
                        mine += 1;
                        sleep(SECTION).await;
                    }
                    assert_eq!(guard.release().await, ReleaseOutcome::Released);
                    if !counts {
                        return mine;
                    }
                }
            });
        }
    }
    let shares = clients.join_all().await;
    assert_eq!(shares.iter().sum::<u64>(), HOLDS);
    assert!(jain(&shares) >= 0.95, "{shares:?}");
}
