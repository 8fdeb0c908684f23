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
use crate::counters::Counters;
use crate::drive::Instance;
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

/// Two instances for the experiments in which the lease runs out, kept over the tries.
pub struct Pair {
    slow: Service,
    fast: Service,
    proxy: DatabaseProxy,
}

fn arbiter(attempt: &Try) -> Switch {
    if attempt.cured { Switch::On } else { Switch::Off }
}

async fn database_proxy(stage: &Stage<'_>) -> Result<DatabaseProxy, CannotJudge> {
    DatabaseProxy::open(&stage.testbed.environment.get("DATABASE_URL").unwrap_or_default()).await
}

fn press(service: &Service, strategy: &'static str, item: i64, buyer: usize) -> Press {
    Press { instance: service.instance.clone(), strategy, item, buyer }
}

/// What the ledger shows after a try.
async fn trial(stage: &Stage<'_>, item: i64, detail: &str) -> Result<Trial, CannotJudge> {
    let SoldUnits { units: sold, available } = stage.sold(item).await?;
    let detail = format!("{detail}; the stock row says {available} left");
    Ok(Trial { stock: STOCK, sold, broken: sold != STOCK, detail })
}

impl Pair {
    /// Starts both on the shop's servers.
    pub async fn start(stage: &Stage<'_>) -> Result<Self, CannotJudge> {
        let proxy = database_proxy(stage).await?;
        let mut settings = LEASE.to_vec();
        settings.push(("DATABASE_URL", &proxy.url));
        let slow = stage.service("break-slow", &settings).await?;
        let fast = stage.service("break-fast", &LEASE).await?;
        Ok(Self { slow, fast, proxy })
    }

    /// A holder is frozen before its write, longer than its lease; the other instance sells all.
    pub async fn lease_expires(
        &self,
        stage: &Stage<'_>,
        attempt: &Try,
    ) -> Result<Trial, CannotJudge> {
        let item = stage.item(&self.fast.instance, STOCK, arbiter(attempt)).await?;
        let instances = [self.slow.instance.clone(), self.fast.instance.clone()];
        let before = Counters::read(&instances).await;
        self.proxy.hold_transactions();
        let late = stage.press_in_background(&press(&self.slow, "lock-redis", item, 0));
        let held = self.proxy.until_held(1).await;
        if held.is_ok() {
            self.slow.pause()?;
        }
        // They wait until the lease has run out.
        let codes = stage.rush(&press(&self.fast, "lock-redis", item, 1), 1..BUYERS).await;
        self.proxy.release_transactions();
        self.slow.resume()?;
        let late = late.await.unwrap_or_default();
        held?;
        let fenced = Counters::read(&instances)
            .await
            .zip(before)
            .map_or(0.0, |(after, before)| after.since(before).fenced);
        let detail = format!(
            "while it was frozen the others were answered {codes:?}; the late one was answered {late}, writes refused by the fence: {fenced}"
        );
        trial(stage, item, &detail).await
    }

    /// Stops both.
    pub async fn stop(self) {
        self.slow.stop().await;
        self.fast.stop().await;
    }
}

/// A lock that was not yet replicated when its Redis died; the promoted replica grants it again.
pub async fn failover(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let proxy = database_proxy(stage).await?;
    let master = private_redis(NOT_ON_DISK).await?;
    let replica = private_redis(NOT_ON_DISK).await?;
    replica.follow(&master, master.port()).await.or_cannot_judge("Redis")?;
    let old = master.tcp_url();
    let new = replica.tcp_url();
    let mut settings = LEASE.to_vec();
    settings.extend([("DATABASE_URL", proxy.url.as_str()), ("REDIS_URL", &old)]);
    let slow = stage.service("break-failover-old", &settings).await?;
    let fast =
        stage.service("break-failover-new", &[LEASE[0], LEASE[1], ("REDIS_URL", &new)]).await?;
    let item = stage.item(&fast.instance, STOCK, arbiter(attempt)).await?;
    let fenced_before = fenced(&slow.instance).await;
    // The replica lags: what comes now reaches it too late.
    replica.run::<()>(&CUT_OFF).await.or_cannot_judge("Redis")?;
    proxy.hold_transactions();
    let late = stage.press_in_background(&press(&slow, "lock-redis", item, 0));
    proxy.until_held(1).await?;
    master.kill().await;
    replica.run::<()>(&["REPLICAOF", "NO", "ONE"]).await.or_cannot_judge("Redis")?;
    let codes = stage.rush(&press(&fast, "lock-redis", item, 1), 1..BUYERS).await;
    proxy.release_transactions();
    let end = late_end(stage, item, &slow.instance, fenced_before).await;
    late.abort();
    let end = end?;
    let detail = format!(
        "under the promoted replica the others were answered {codes:?}; the holder of the lost lock {end}"
    );
    let trial = trial(stage, item, &detail).await?;
    slow.stop().await;
    fast.stop().await;
    Ok(trial)
}

/// Whether the late write landed, or was refused. Its instance has no Redis any more, so its client
/// may be told "try again" for ever: the ledger and the fence say it sooner.
async fn late_end(
    stage: &Stage<'_>,
    item: i64,
    late: &Instance,
    fenced_before: f64,
) -> Result<&'static str, CannotJudge> {
    for _ in 0..QUEUE_POLLS_MAX {
        if stage.sold(item).await?.units > STOCK {
            return Ok("wrote, too");
        }
        if fenced(late).await > fenced_before {
            return Ok("was refused by the fence");
        }
        sleep(QUEUE_POLL).await;
    }
    Err(CannotJudge::new("the late write neither landed nor was refused"))
}

async fn fenced(instance: &Instance) -> f64 {
    let counters = Counters::read(std::slice::from_ref(instance)).await;
    counters.map_or(0.0, |counters| counters.fenced)
}

/// A Redis without persistence dies while purchases are between its counter and the ledger.
pub async fn counter_lost(stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    let proxy = database_proxy(stage).await?;
    let mut redis = private_redis(NOT_ON_DISK).await?;
    let url = redis.tcp_url();
    let slow = stage
        .service("break-counter-slow", &[("DATABASE_URL", &proxy.url), ("REDIS_URL", &url)])
        .await?;
    let fast = stage.service("break-counter-fast", &[("REDIS_URL", &url)]).await?;
    let item = stage.item(&fast.instance, STOCK, arbiter(attempt)).await?;
    // One sale first: the counter is loaded, and its load is written in the ledger.
    let first = stage.press(&press(&slow, "redis-lua", item, 0)).await;
    proxy.hold_transactions();
    let late: Vec<_> = (1..=IN_FLIGHT)
        .map(|buyer| stage.press_in_background(&press(&slow, "redis-lua", item, buyer)))
        .collect();
    // With the arbiter on they may share one transaction, so that one BEGIN is all that is held.
    proxy.until_held(1).await?;
    counter_at(&redis, STOCK - 1 - i64::try_from(IN_FLIGHT).unwrap_or(0)).await?;
    cut_power(&mut redis).await?;
    let codes = stage.rush(&press(&fast, "redis-lua", item, 0), 10..10 + BUYERS).await;
    proxy.release_transactions();
    let mut answers = Vec::new();
    for late in late {
        answers.push(late.await.unwrap_or_default());
    }
    let detail = format!(
        "first {first}; after the restart the others were answered {codes:?}; those in flight {answers:?}"
    );
    let trial = trial(stage, item, &detail).await?;
    slow.stop().await;
    fast.stop().await;
    Ok(trial)
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
    let press = press(&service, "redis-stream", item, 0);
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
