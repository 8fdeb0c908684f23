//! Mistakes that no strategy of the service makes, done here with plain Redis commands: releasing
//! somebody else's lock, taking locks in no fixed order, and trusting a replica.

use std::sync::Arc;
use std::time::Duration;

use redis_connection::SharedConnection;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::stage::{CUT_OFF, NOT_ON_DISK, Stage, private_redis};
use super::{Trial, Try};
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::plain_lock;
use crate::servers::redis_at;

/// A lease that runs out while its holder dawdles, and one that does not.
const LEASE_SHORT_MS: u64 = 60;
const LEASE_LONG_MS: u64 = 30_000;
/// How long a buyer waits for the second lock.
const SECOND_LOCK_MAX: Duration = Duration::from_millis(400);
/// What must happen soon, even on a busy machine.
const SOON: Duration = Duration::from_secs(10);

const TAKE: &str = "local left = tonumber(redis.call('GET', KEYS[1])) \
     if left < 1 then return 0 end redis.call('DECR', KEYS[1]) return 1";

/// Keys of one try.
fn key(name: &str) -> String {
    format!("loadtest:{}:{name}", Uuid::now_v7().simple())
}

async fn acquire(
    redis: &mut SharedConnection,
    lock: &str,
    owner: &str,
    lease_ms: u64,
) -> Result<bool, CannotJudge> {
    plain_lock::acquire(redis, lock, owner, lease_ms).await.or_cannot_judge("Redis")
}

async fn acquire_soon(
    redis: &mut SharedConnection,
    lock: &str,
    owner: &str,
    patience: Duration,
) -> Result<bool, CannotJudge> {
    let taken = plain_lock::acquire_within(redis, lock, owner, LEASE_LONG_MS, patience).await;
    taken.or_cannot_judge("Redis")
}

/// Gives a lock back: blindly, or only if it is still ours.
async fn release(
    redis: &mut SharedConnection,
    lock: &str,
    owner: &str,
    compare: bool,
) -> Result<(), CannotJudge> {
    let ended = if compare {
        plain_lock::release(redis, lock, owner).await
    } else {
        redis::cmd("DEL").arg(lock).query_async(redis).await
    };
    ended.map(|_| ()).or_cannot_judge("Redis")
}

async fn get(redis: &mut SharedConnection, key: &str) -> Result<i64, CannotJudge> {
    redis::cmd("GET").arg(key).query_async(redis).await.or_cannot_judge("Redis")
}

async fn set(redis: &mut SharedConnection, key: &str, units: i64) -> Result<(), CannotJudge> {
    // Throw-away keys leave by themselves.
    let command = redis::cmd("SET").arg(key).arg(units).arg("EX").arg(600).to_owned();
    command.query_async(redis).await.or_cannot_judge("Redis")
}

/// Ada's lease runs out before she releases; Ben has the lock by then. Her release must not free it.
pub async fn wrong_owner(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    const STOCK: i64 = 2;
    let mut redis = stage.testbed.redis().await?;
    let lock = key("lock");
    let stock = key("stock");
    set(&mut redis, &stock, STOCK).await?;
    let mut sold = 0;

    acquire(&mut redis, &lock, "ada", LEASE_SHORT_MS).await?;
    let seen_by_ada = get(&mut redis, &stock).await?;
    set(&mut redis, &stock, seen_by_ada - 1).await?;
    sold += 1;
    // She dawdles until the lease is over, and Ben comes.
    if !acquire_soon(&mut redis, &lock, "ben", SOON).await? {
        return Err(CannotJudge::new("the lease did not run out"));
    }
    let seen_by_ben = get(&mut redis, &stock).await?;
    release(&mut redis, &lock, "ada", attempt.cured).await?;
    // Cleo may only come in now if Ada has freed Ben's lock.
    let cleo_beside_ben = acquire(&mut redis, &lock, "cleo", LEASE_LONG_MS).await?;
    let mut seen_by_cleo = if cleo_beside_ben { get(&mut redis, &stock).await? } else { 0 };
    if seen_by_ben > 0 {
        set(&mut redis, &stock, seen_by_ben - 1).await?;
        sold += 1;
    }
    release(&mut redis, &lock, "ben", attempt.cured).await?;
    if !cleo_beside_ben {
        acquire_soon(&mut redis, &lock, "cleo", SOON).await?;
        seen_by_cleo = get(&mut redis, &stock).await?;
    }
    if seen_by_cleo > 0 {
        set(&mut redis, &stock, seen_by_cleo - 1).await?;
        sold += 1;
    }
    release(&mut redis, &lock, "cleo", true).await?;
    let beside = if cleo_beside_ben { "beside" } else { "after" };
    let detail = format!("Cleo came in {beside} Ben and saw {seen_by_cleo} left");
    Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail })
}

/// Two buyers want the same two items; each locks both before it buys.
pub async fn lock_order(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    const BUYERS: i64 = 2;
    let lamp = key("lamp");
    let chair = key("chair");
    let met = Arc::new(Barrier::new(2));
    let orders = if attempt.cured {
        // By name, whatever the order in the basket.
        [[lamp.clone(), chair.clone()], [lamp, chair]]
    } else {
        [[lamp.clone(), chair.clone()], [chair, lamp]]
    };
    let mut buyers = Vec::new();
    for (number, locks) in orders.into_iter().enumerate() {
        let mut redis = stage.testbed.redis().await?;
        let met = Arc::clone(&met);
        let cured = attempt.cured;
        buyers.push(tokio::spawn(async move {
            let owner = format!("buyer-{number}");
            // In a fixed order the second buyer waits here already, and harms nobody.
            let patience = if cured { SOON } else { SECOND_LOCK_MAX };
            if cured {
                met.wait().await;
            }
            if !acquire_soon(&mut redis, &locks[0], &owner, patience).await? {
                return Ok(0);
            }
            if !cured {
                met.wait().await;
            }
            let both = acquire_soon(&mut redis, &locks[1], &owner, patience).await?;
            if both {
                release(&mut redis, &locks[1], &owner, true).await?;
            } else {
                // Real ones give up at different times; here both have waited in vain.
                met.wait().await;
            }
            release(&mut redis, &locks[0], &owner, true).await?;
            Ok::<i64, CannotJudge>(i64::from(both))
        }));
    }
    let mut sold = 0;
    for buyer in buyers {
        sold += buyer.await.map_err(|error| CannotJudge(error.to_string()))??;
    }
    let detail = if sold < BUYERS {
        format!("each held what the other wanted, for {} ms", SECOND_LOCK_MAX.as_millis())
    } else {
        "the second basket waited for the first".to_owned()
    };
    Ok(Trial { stock: BUYERS, sold, broken: sold < BUYERS, detail })
}

/// The stock is looked up on a replica that lags, and taken on the master.
pub async fn stale_replica(attempt: &Try) -> Result<Trial, CannotJudge> {
    const STOCK: i64 = 5;
    const BUYERS: usize = 12;
    let master = private_redis(NOT_ON_DISK).await?;
    let replica = private_redis(NOT_ON_DISK).await?;
    let stock = key("stock");
    let mut at_master = redis_at(&master.tcp_url()).await?;
    set(&mut at_master, &stock, STOCK).await?;
    replica.follow(&master, master.port()).await.or_cannot_judge("Redis")?;
    let mut at_replica = redis_at(&replica.tcp_url()).await?;
    replica.run::<()>(&CUT_OFF).await.or_cannot_judge("Redis")?;
    let mut sold = 0;
    for _ in 0..BUYERS {
        if attempt.cured {
            let script = redis_connection::Script::new(TAKE);
            let taken: i64 =
                script.key(&stock).invoke_async(&mut at_master).await.or_cannot_judge("Redis")?;
            sold += taken;
        } else if get(&mut at_replica, &stock).await? > 0 {
            let command = redis::cmd("DECR").arg(&stock).to_owned();
            command.query_async::<i64>(&mut at_master).await.or_cannot_judge("Redis")?;
            sold += 1;
        }
    }
    let old = get(&mut at_replica, &stock).await?;
    let new = get(&mut at_master, &stock).await?;
    let detail = format!("in the end the replica says {old} left, the master {new}");
    Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail })
}
