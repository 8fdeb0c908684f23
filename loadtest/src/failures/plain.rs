//! Mistakes that no strategy of the service makes, done here with plain Redis commands: releasing
//! somebody else's lock, taking locks in no fixed order, and trusting a replica.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncCommands, RedisResult};
use redis_connection::SharedConnection;
use tokio::sync::Barrier;
use uuid::Uuid;

use super::stage::{CUT_OFF, NOT_ON_DISK, Stage, private_redis};
use super::{Trial, Try};
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::plain_lock::{acquire, acquire_within, release};
use crate::servers;

/// A lease that runs out while its holder dawdles, and one that does not.
const LEASE_SHORT_MS: u64 = 60;
const LEASE_LONG_MS: u64 = 30_000;
/// How long a buyer waits for the second lock.
const SECOND_LOCK_MAX: Duration = Duration::from_millis(400);
/// What must happen soon, even on a busy machine.
const SOON: Duration = Duration::from_secs(10);
/// Throw-away keys leave by themselves.
const KEY_SECONDS: u64 = 600;

const TAKE: &str = "local left = tonumber(redis.call('GET', KEYS[1])) \
     if left < 1 then return 0 end redis.call('DECR', KEYS[1]) return 1";

/// Keys of one try.
fn key(name: &str) -> String {
    format!("loadtest:{}:{name}", Uuid::now_v7().simple())
}

/// Ada's lease runs out before she releases; Ben has the lock by then. Her release must not free it.
pub async fn wrong_owner(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let mut redis = servers::redis(&stage.testbed.environment).await?;
    let trial = three_buyers(&mut redis, attempt.cured).await.or_cannot_judge("Redis")?;
    trial.ok_or_else(|| CannotJudge::new("the lease did not run out"))
}

/// `None` when Ada's lease did not run out. With `compares` a release frees its own lock alone.
async fn three_buyers(redis: &mut SharedConnection, compares: bool) -> RedisResult<Option<Trial>> {
    const STOCK: i64 = 2;
    let lock = key("lock");
    let stock = key("stock");
    let () = redis.set_ex(&stock, STOCK, KEY_SECONDS).await?;
    let mut sold = 0;

    acquire(redis, &lock, "ada", LEASE_SHORT_MS).await?;
    let seen_by_ada: i64 = redis.get(&stock).await?;
    let () = redis.set_ex(&stock, seen_by_ada - 1, KEY_SECONDS).await?;
    sold += 1;
    // She dawdles until the lease is over, and Ben comes.
    if !acquire_within(redis, &lock, "ben", LEASE_LONG_MS, SOON).await? {
        return Ok(None);
    }
    let seen_by_ben: i64 = redis.get(&stock).await?;
    give_back(redis, &lock, "ada", compares).await?;
    // Cleo may only come in now if Ada has freed Ben's lock.
    let cleo_beside_ben = acquire(redis, &lock, "cleo", LEASE_LONG_MS).await?;
    let mut seen_by_cleo: i64 = if cleo_beside_ben { redis.get(&stock).await? } else { 0 };
    if seen_by_ben > 0 {
        let () = redis.set_ex(&stock, seen_by_ben - 1, KEY_SECONDS).await?;
        sold += 1;
    }
    give_back(redis, &lock, "ben", compares).await?;
    if !cleo_beside_ben {
        acquire_within(redis, &lock, "cleo", LEASE_LONG_MS, SOON).await?;
        seen_by_cleo = redis.get(&stock).await?;
    }
    if seen_by_cleo > 0 {
        let () = redis.set_ex(&stock, seen_by_cleo - 1, KEY_SECONDS).await?;
        sold += 1;
    }
    release(redis, &lock, "cleo").await?;
    let beside = if cleo_beside_ben { "beside" } else { "after" };
    let detail = format!("Cleo came in {beside} Ben and saw {seen_by_cleo} left");
    Ok(Some(Trial { stock: STOCK, sold, broken: sold != STOCK, detail }))
}

/// Gives a lock back: blindly, or only if it is still the owner's.
async fn give_back(
    redis: &mut SharedConnection,
    lock: &str,
    owner: &str,
    compares: bool,
) -> RedisResult<()> {
    if compares { release(redis, lock, owner).await.map(drop) } else { redis.del(lock).await }
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
        let mut redis = servers::redis(&stage.testbed.environment).await?;
        let met = Arc::clone(&met);
        let cured = attempt.cured;
        buyers.push(tokio::spawn(async move {
            let owner = format!("buyer-{number}");
            // In a fixed order the second buyer waits here already, and harms nobody.
            let patience = if cured { SOON } else { SECOND_LOCK_MAX };
            if cured {
                met.wait().await;
            }
            if !acquire_within(&mut redis, &locks[0], &owner, LEASE_LONG_MS, patience).await? {
                return Ok(0);
            }
            if !cured {
                met.wait().await;
            }
            let both =
                acquire_within(&mut redis, &locks[1], &owner, LEASE_LONG_MS, patience).await?;
            if both {
                release(&mut redis, &locks[1], &owner).await?;
            } else {
                // Real ones give up at different times; here both have waited in vain.
                met.wait().await;
            }
            release(&mut redis, &locks[0], &owner).await?;
            RedisResult::Ok(i64::from(both))
        }));
    }
    let mut sold = 0;
    for buyer in buyers {
        sold += buyer.await.or_cannot_judge("a buyer has ended")?.or_cannot_judge("Redis")?;
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
    let units = STOCK.to_string();
    master.run::<()>(&["SET", "stock", &units]).await.or_cannot_judge("Redis")?;
    replica.follow(&master, master.port()).await.or_cannot_judge("Redis")?;
    replica.run::<()>(&CUT_OFF).await.or_cannot_judge("Redis")?;
    let sale = async {
        let mut sold = 0;
        for _ in 0..BUYERS {
            if attempt.cured {
                sold += master.run::<i64>(&["EVAL", TAKE, "1", "stock"]).await?;
            } else if replica.run::<i64>(&["GET", "stock"]).await? > 0 {
                master.run::<i64>(&["DECR", "stock"]).await?;
                sold += 1;
            }
        }
        let old: i64 = replica.run(&["GET", "stock"]).await?;
        let new: i64 = master.run(&["GET", "stock"]).await?;
        RedisResult::Ok((sold, old, new))
    };
    let (sold, old, new) = sale.await.or_cannot_judge("Redis")?;
    let detail = format!("in the end the replica says {old} left, the master {new}");
    Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail })
}
