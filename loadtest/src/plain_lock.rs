//! The plainest lock on Redis that frees only its own: `SET NX PX`, and a script that compares and
//! deletes. Baseline K of both benches, and the lock of experiments without the service.

use std::sync::LazyLock;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::ConnectionLike;
use redis_connection::Script;
use tokio::time::{Instant, sleep};

/// The pause before a waiter looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

static COMPARE_AND_DELETE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    )
});

/// Takes the lock for `lease_ms`; `false` when it is held.
pub async fn acquire(
    redis: &mut impl ConnectionLike,
    key: &str,
    owner: &str,
    lease_ms: u64,
) -> RedisResult<bool> {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(owner).arg("NX").arg("PX").arg(lease_ms);
    let answer: Option<String> = set.query_async(redis).await?;
    Ok(answer.is_some())
}

/// Takes the lock for `lease_ms`, and looks again and again while it is held; `false` when it still is after `patience`.
pub async fn acquire_within(
    redis: &mut impl ConnectionLike,
    key: &str,
    owner: &str,
    lease_ms: u64,
    patience: Duration,
) -> RedisResult<bool> {
    let until = Instant::now() + patience;
    loop {
        if acquire(redis, key, owner, lease_ms).await? {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Frees the lock; `false` when it was not, or no longer, the owner's.
pub async fn release(redis: &mut impl ConnectionLike, key: &str, owner: &str) -> RedisResult<bool> {
    let freed: u64 = COMPARE_AND_DELETE.key(key).arg(owner).invoke_async(redis).await?;
    Ok(freed == 1)
}
