//! Baseline K: the [`plain_lock`] by one client that has the key to itself.

use std::time::{Duration, Instant};

use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::{plain_lock, testbed};

const KEY: &str = "{bench}:raw-lock";
const LEASE_MS: u64 = 10_000;

/// Locks and unlocks per second.
pub async fn per_second(environment: &Environment, span: Duration) -> Result<f64, CannotJudge> {
    let failed = |error: redis::RedisError| CannotJudge(format!("Redis for baseline K: {error}"));
    let mut connection = testbed::redis(environment).await?;
    let began = Instant::now();
    let mut cycles = 0_u32;
    while began.elapsed() < span {
        let word = format!("{:032x}", rand::random::<u128>());
        let taken = plain_lock::acquire(&mut connection, KEY, &word, LEASE_MS).await;
        let freed = plain_lock::release(&mut connection, KEY, &word).await;
        if !(taken.map_err(failed)? && freed.map_err(failed)?) {
            return Err(CannotJudge("another client uses the key of baseline K".to_owned()));
        }
        cycles += 1;
    }
    Ok(f64::from(cycles) / began.elapsed().as_secs_f64())
}
