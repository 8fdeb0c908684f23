//! Baseline K: the plainest lock that frees only its own: `SET NX PX`, compare-and-delete, by one
//! client that has the key to itself.

use std::time::{Duration, Instant};

use redis::Script;

use loadtest::environment::Environment;
use loadtest::failure::CannotJudge;
use loadtest::testbed;

const KEY: &str = "{bench}:raw-lock";
const LEASE_MS: u64 = 10_000;
/// Deletes the key if it holds the caller's word.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Locks and unlocks per second.
pub async fn per_second(environment: &Environment, span: Duration) -> Result<f64, CannotJudge> {
    let failed = |error: redis::RedisError| CannotJudge(format!("Redis for baseline K: {error}"));
    let mut connection = testbed::redis(environment).await?;
    let release = Script::new(COMPARE_AND_DELETE);
    let began = Instant::now();
    let mut cycles = 0_u32;
    while began.elapsed() < span {
        let word = format!("{:032x}", rand::random::<u128>());
        let taken: Option<String> = redis::cmd("SET")
            .arg(KEY)
            .arg(&word)
            .arg("NX")
            .arg("PX")
            .arg(LEASE_MS)
            .query_async(&mut connection)
            .await
            .map_err(failed)?;
        let freed: i64 =
            release.key(KEY).arg(&word).invoke_async(&mut connection).await.map_err(failed)?;
        if taken.is_none() || freed != 1 {
            return Err(CannotJudge("somebody else uses the key of baseline K".to_owned()));
        }
        cycles += 1;
    }
    Ok(f64::from(cycles) / began.elapsed().as_secs_f64())
}
