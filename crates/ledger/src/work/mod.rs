//! How work on the ledger is called: behind a breaker, tried again, with a permit of its item, and once for many who ask
//! for the same.

pub mod breaker;
pub mod cache;
pub mod gathered;
pub(crate) mod item_concurrency;
pub(crate) mod item_permit;
mod ledger;
pub(crate) mod limit_lock;
pub mod single_flight;
pub(crate) mod stock_lock;

use std::time::Duration;

pub use ledger::{Ledger, RetryPolicy, ask, change, failed_change, failed_read, nothing_was_sent};

/// Tries of a whole transaction.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
/// The longest pause before the second try; it doubles from try to try, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

/// Waits after `attempt` tries: full jitter over a doubling bound.
pub(crate) async fn pause(attempt: u32) {
    let bound = PAUSE_FIRST * 2_u32.pow(attempt.min(8));
    tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
}
