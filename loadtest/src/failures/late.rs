//! Purchases that write late: the lock or the counter by which they were let in is gone meanwhile.
//!
//! One instance reaches the database through a [`DatabaseProxy`], which stops its purchase right before
//! the write. With the arbiter off the late write lands; with it on, the fence or the condition on
//! the stock refuses it.

use std::time::Duration;

use dev_servers::RedisServer;
use tokio::time::sleep;

use super::database_proxy::DatabaseProxy;
use super::stage::{CUT_OFF, NOT_ON_DISK, Press, SoldUnits, Stage, private_redis};
use super::{Trial, Try};
use crate::counters;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::launcher::Service;
use crate::options::Switch;

/// Units on sale.
const STOCK: i64 = 5;
/// Buyers who come while the late one hangs: more than the stock.
const BUYERS: usize = 12;
/// Purchases in flight when the counter is lost.
const IN_FLIGHT: usize = 4;
/// A short lease, so that a try is short; three answers of Redis must fit into it.
const LEASE: [(&str, &str); 2] =
    [("SECKILL_LOCK_LEASE_MS", "1500"), ("SECKILL_REDIS_COMMAND_TIMEOUT_MS", "500")];
/// How long a queue may take to be worked off.
const QUEUE_POLLS_MAX: usize = 600;
/// Polls of a queue that came back empty: nothing can come out of it.
const EMPTY_QUEUE_POLLS_MAX: usize = 20;
const QUEUE_POLL: Duration = Duration::from_millis(100);
/// The page of metrics must come within this.
const METRICS_MAX: Duration = Duration::from_secs(5);

/// Two instances and the item of one try. The slow one reaches the database through the proxy.
struct Pair {
    slow: Service,
    fast: Service,
    proxy: DatabaseProxy,
    item: i64,
}

impl Pair {
    /// Starts both on the shop's servers, each with further settings, and makes the item.
    async fn start(
        stage: &Stage<'_>,
        attempt: &Try,
        slow: &[(&str, &str)],
        fast: &[(&str, &str)],
    ) -> Result<Self, CannotJudge> {
        let proxy = database_proxy(stage).await?;
        let slow = [slow, &[("DATABASE_URL", proxy.url.as_str())]].concat();
        let slow = stage.service("break-slow", &slow).await?;
        let fast = stage.service("break-fast", fast).await?;
        let arbiter = if attempt.cured { Switch::On } else { Switch::Off };
        let item = stage.item(&fast.instance, STOCK, arbiter).await?;
        Ok(Self { slow, fast, proxy, item })
    }

    /// A purchase at one of them.
    fn press(&self, service: &Service, strategy: &'static str, buyer: usize) -> Press {
        Press { instance: service.instance.clone(), strategy, item: self.item, buyer }
    }

    /// The writes that the slow one sent and the fence refused.
    async fn fenced(&self) -> f64 {
        let page = self.slow.instance.page("/metrics", METRICS_MAX).await;
        let page = page.map(|reply| reply.body).unwrap_or_default();
        let by_reason = "seckill_arbiter_refusals_by_reason_total";
        counters::sum(&String::from_utf8_lossy(&page), by_reason, "reason=\"fenced\"")
    }

    /// What the ledger shows after the try. Stops both.
    async fn end(self, stage: &Stage<'_>, detail: &str) -> Result<Trial, CannotJudge> {
        let SoldUnits { units: sold, available } = stage.sold(self.item).await?;
        self.slow.stop().await;
        self.fast.stop().await;
        let detail = format!("{detail}; the stock row says {available} left");
        Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail })
    }
}

async fn database_proxy(stage: &Stage<'_>) -> Result<DatabaseProxy, CannotJudge> {
    DatabaseProxy::open(&stage.testbed.environment.get("DATABASE_URL").unwrap_or_default()).await
}

/// A holder is frozen before its write, longer than its lease; the other instance sells all.
pub async fn lease_expires(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let pair = Pair::start(stage, attempt, &LEASE, &LEASE).await?;
    pair.proxy.hold_transactions();
    let late = stage.press_in_background(&pair.press(&pair.slow, "lock-redis", 0));
    pair.proxy.until_held(1).await?;
    pair.slow.pause()?;
    // They wait until the lease has run out.
    let codes = stage.rush(&pair.press(&pair.fast, "lock-redis", 1), 1..BUYERS).await;
    pair.proxy.release_transactions();
    pair.slow.resume()?;
    let late = late.await.unwrap_or_default();
    let fenced = pair.fenced().await;
    let detail = format!(
        "while it was frozen the others were answered {codes:?}; the late one was answered {late}, writes refused by the fence: {fenced}"
    );
    pair.end(stage, &detail).await
}

/// A lock that was not yet replicated when its Redis died; the promoted replica grants it again.
pub async fn failover(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let master = private_redis(NOT_ON_DISK).await?;
    let replica = private_redis(NOT_ON_DISK).await?;
    replica.follow(&master, master.port()).await.or_cannot_judge("Redis")?;
    let old = master.tcp_url();
    let new = replica.tcp_url();
    let slow = [LEASE[0], LEASE[1], ("REDIS_URL", &*old)];
    let fast = [LEASE[0], LEASE[1], ("REDIS_URL", &*new)];
    let pair = Pair::start(stage, attempt, &slow, &fast).await?;
    // The replica lags: what comes now reaches it too late.
    replica.run::<()>(&CUT_OFF).await.or_cannot_judge("Redis")?;
    pair.proxy.hold_transactions();
    let late = stage.press_in_background(&pair.press(&pair.slow, "lock-redis", 0));
    pair.proxy.until_held(1).await?;
    master.kill().await;
    replica.run::<()>(&["REPLICAOF", "NO", "ONE"]).await.or_cannot_judge("Redis")?;
    let codes = stage.rush(&pair.press(&pair.fast, "lock-redis", 1), 1..BUYERS).await;
    pair.proxy.release_transactions();
    let end = late_end(stage, &pair).await;
    late.abort();
    let end = end?;
    let detail = format!(
        "under the promoted replica the others were answered {codes:?}; the holder of the lost lock {end}"
    );
    pair.end(stage, &detail).await
}

/// Whether the late write landed, or was refused. Its instance has no Redis any more, so its client
/// may be told "try again" for ever: the ledger and the fence say it sooner.
async fn late_end(stage: &Stage<'_>, pair: &Pair) -> Result<&'static str, CannotJudge> {
    for _ in 0..QUEUE_POLLS_MAX {
        if stage.sold(pair.item).await?.units > STOCK {
            return Ok("wrote, too");
        }
        if pair.fenced().await > 0.0 {
            return Ok("was refused by the fence");
        }
        sleep(QUEUE_POLL).await;
    }
    Err(CannotJudge::new("the late write neither landed nor was refused"))
}

/// A Redis without persistence dies while purchases are between its counter and the ledger.
pub async fn counter_lost(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let mut redis = private_redis(NOT_ON_DISK).await?;
    let url = redis.tcp_url();
    let settings = [("REDIS_URL", url.as_str())];
    let pair = Pair::start(stage, attempt, &settings, &settings).await?;
    let press = |service, buyer| pair.press(service, "redis-lua", buyer);
    // One sale first: the counter is loaded, and its load is written in the ledger.
    let first = stage.press(&press(&pair.slow, 0)).await;
    pair.proxy.hold_transactions();
    let late: Vec<_> =
        (1..=IN_FLIGHT).map(|buyer| stage.press_in_background(&press(&pair.slow, buyer))).collect();
    // With the arbiter on they may share one transaction, so that one BEGIN is all that is held.
    pair.proxy.until_held(1).await?;
    counter_at(&redis, STOCK - 1 - i64::try_from(IN_FLIGHT).unwrap_or(0)).await?;
    cut_power(&mut redis).await?;
    let codes = stage.rush(&press(&pair.fast, 0), 10..10 + BUYERS).await;
    pair.proxy.release_transactions();
    let mut answers = Vec::new();
    for late in late {
        answers.push(late.await.unwrap_or_default());
    }
    let detail = format!(
        "first {first}; after the restart the others were answered {codes:?}; those in flight {answers:?}"
    );
    pair.end(stage, &detail).await
}

/// Kills a Redis and starts it again on its port, with what it had written.
async fn cut_power(redis: &mut RedisServer) -> Result<(), CannotJudge> {
    redis.kill().await;
    redis.restart().await.or_cannot_judge("a private Redis")
}

/// Waits until the only counter of a Redis is down to `left` units.
async fn counter_at(redis: &RedisServer, left: i64) -> Result<(), CannotJudge> {
    let mut seen = None;
    for _ in 0..QUEUE_POLLS_MAX {
        let keys: Vec<String> = redis.run(&["KEYS", "*:stock"]).await.or_cannot_judge("Redis")?;
        if let [key] = keys.as_slice() {
            seen = redis.run(&["HGET", key, "available"]).await.or_cannot_judge("Redis")?;
        }
        if seen == Some(left) {
            return Ok(());
        }
        sleep(QUEUE_POLL).await;
    }
    Err(CannotJudge(format!("the counter stands at {seen:?}, not at {left}")))
}

/// A power cut takes the service and its Redis after buyers were told "queued". What was not on the
/// disk is gone.
pub async fn queue_lost(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let proxy = database_proxy(stage).await?;
    // What saves it is no arbiter: nothing reached it. It is a queue that is on the disk.
    let line = if attempt.cured { "appendfsync always" } else { NOT_ON_DISK };
    let mut redis = private_redis(line).await?;
    let url = redis.tcp_url();
    let settings = [("DATABASE_URL", proxy.url.as_str()), ("REDIS_URL", &url)];
    let service = stage.service("break-queue-before", &settings).await?;
    let item = stage.item(&service.instance, STOCK, Switch::On).await?;
    let instance = service.instance.clone();
    let press = Press { instance, strategy: "redis-stream", item, buyer: 0 };
    // Nothing that was queued reaches the ledger yet.
    proxy.hold_transactions();
    let codes = stage.rush(&press, 0..usize::try_from(STOCK).unwrap_or(0)).await;
    let queued = i64::try_from(codes.get("queued").copied().unwrap_or(0)).unwrap_or(0);
    service.kill().await;
    // Its connections end with it.
    proxy.release_transactions();
    cut_power(&mut redis).await?;
    let kept: i64 = redis.run(&["DBSIZE"]).await.or_cannot_judge("Redis")?;
    let service = stage.service("break-queue-after", &[("REDIS_URL", &url)]).await?;
    let mut sold = stage.sold(item).await?;
    let polls_max = if kept == 0 { EMPTY_QUEUE_POLLS_MAX } else { QUEUE_POLLS_MAX };
    for _ in 0..polls_max {
        if sold.units >= queued {
            break;
        }
        sleep(QUEUE_POLL).await;
        sold = stage.sold(item).await?;
    }
    service.stop().await;
    if queued == 0 {
        return Err(CannotJudge(format!("nobody was queued: {codes:?}")));
    }
    let detail = format!(
        "{queued} buyers were told \"queued\", {} of them have an order; Redis came back with {kept} keys",
        sold.units
    );
    Ok(Trial { stock: STOCK, sold: sold.units, broken: sold.units < queued, detail })
}
