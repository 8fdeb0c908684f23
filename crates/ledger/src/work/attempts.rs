//! How often a transaction is tried, and the pauses between the tries.

use std::time::Duration;

/// Tries of a whole transaction.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
/// The longest pause before the second try; it doubles from try to try, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

/// Waits after `attempt` tries: full jitter over a doubling bound.
pub(crate) async fn pause(attempt: u32) {
    let bound = PAUSE_FIRST * 2_u32.pow(attempt.min(8));
    tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
}
