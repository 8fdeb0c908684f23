//! S0's marketplace on plain Redis: sellers list items, buyers buy the ones on offer.
//!
//! As in the article a seller moves an item from an inventory to the market, and a buyer pays for
//! it from a purse and takes it from the market to an inventory of his own. The three ways of keeping them apart
//! are the article's: WATCH, MULTI, EXEC and again; one lock for the whole market; a lock per item.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::failure::{CannotJudge, OrCannotJudge};
use crate::plain_lock;
use crate::testbed::Testbed;

/// How sellers and buyers keep out of each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Watch,
    OneLock,
    LockPerItem,
}

/// What a market did.
#[derive(Debug, Default)]
pub struct Figures {
    pub listed: u64,
    pub bought: u64,
    pub retries: u64,
    /// How long all purchases took together.
    pub wait_us: u64,
    /// Items that are at two places or at none, and money that was made or lost: must be zero.
    pub faults: i64,
}

impl Figures {
    /// The mean time of a purchase.
    pub fn wait_ms_mean(&self) -> f64 {
        self.wait_us as f64 / self.bought.max(1) as f64 / 1e3
    }
}

/// A lock as in the article: tried for up to 10 s, a lease of 20 s.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);
const LEASE_MS: u64 = 20_000;
/// Items on offer above which a seller waits, so that memory stays bounded. The limit is above what
/// the article's sellers listed: waiting sellers change nothing, and WATCH would not collapse.
const ON_OFFER_MAX: i64 = 500_000;
const PAUSE: Duration = Duration::from_millis(1);
/// What a buyer has to spend: enough for any time.
const PURSE: i64 = 1_000_000_000_000;
/// What a buyer sees of the market.
const WINDOW: isize = 20;
/// Lifetime of a market's keys, in case the program is killed.
const KEYS_SECONDS_MAX: i64 = 900;
/// Work that has begun when the time is over may take this much longer.
const OVERTIME: Duration = Duration::from_secs(15);

/// What sellers and buyers share.
struct Market {
    way: Way,
    /// Items on offer, by price.
    offers: String,
    prefix: String,
    until: Instant,
}

/// Runs one market for some time.
pub async fn run(
    testbed: &Testbed,
    way: Way,
    sellers: usize,
    buyers: usize,
    seconds: f64,
) -> Result<Figures, CannotJudge> {
    let prefix = format!("loadtest:{{market:{}}}", Uuid::now_v7().simple());
    let market = Arc::new(Market {
        way,
        offers: format!("{prefix}:offers"),
        prefix,
        until: Instant::now() + Duration::from_secs_f64(seconds),
    });
    let mut people = JoinSet::new();
    for number in 0..sellers {
        let redis = testbed.own_redis(&market.offers).await?;
        people.spawn(sell(Arc::clone(&market), redis, number));
    }
    for number in 0..buyers {
        let redis = testbed.own_redis(&market.offers).await?;
        people.spawn(buy(Arc::clone(&market), redis, number));
    }
    let end = market.until + OVERTIME;
    let mut figures = Figures::default();
    while let Some(ended) = timeout_at(end, people.join_next())
        .await
        .map_err(|_| CannotJudge::new("the market did not close"))?
    {
        let own = ended.or_cannot_judge("the market")?.or_cannot_judge("Redis")?;
        figures.listed += own.listed;
        figures.bought += own.bought;
        figures.retries += own.retries;
        figures.wait_us += own.wait_us;
    }
    let mut redis = testbed.own_redis(&market.offers).await?;
    let faults = market.close(&mut redis, buyers, &figures).await;
    Ok(Figures { faults: faults.or_cannot_judge("Redis")?, ..figures })
}

async fn sell(
    market: Arc<Market>,
    mut redis: MultiplexedConnection,
    number: usize,
) -> redis::RedisResult<Figures> {
    let inventory = format!("{}:seller:{number}", market.prefix);
    let mut figures = Figures::default();
    let mut count = 0_u64;
    while Instant::now() < market.until {
        let item = format!("{number}-{count}");
        count += 1;
        let _: i64 = redis.sadd(&inventory, &item).await?;
        loop {
            if market.list(&mut redis, &inventory, &item).await? {
                figures.listed += 1;
                break;
            }
            figures.retries += 1;
            if Instant::now() >= market.until {
                break;
            }
        }
        let on_offer: i64 = redis.zcard(&market.offers).await?;
        if on_offer >= ON_OFFER_MAX {
            sleep(PAUSE).await;
        }
    }
    Ok(figures)
}

async fn buy(
    market: Arc<Market>,
    mut redis: MultiplexedConnection,
    number: usize,
) -> redis::RedisResult<Figures> {
    let inventory = format!("{}:buyer:{number}", market.prefix);
    let mut figures = Figures::default();
    let purse = format!("{inventory}:purse");
    let _: () = redis.set(&purse, PURSE).await?;
    while Instant::now() < market.until {
        let offers: Vec<String> = redis.zrange(&market.offers, 0, WINDOW - 1).await?;
        if offers.is_empty() {
            sleep(PAUSE).await;
            continue;
        }
        let item = offers[rand::rng().random_range(0..offers.len())].clone();
        let begin = Instant::now();
        loop {
            match market.take(&mut redis, &inventory, &purse, &item).await? {
                Some(true) => {
                    figures.bought += 1;
                    figures.wait_us += begin.elapsed().as_micros() as u64;
                    break;
                }
                // Somebody else has it.
                Some(false) => break,
                None => {
                    figures.retries += 1;
                    if Instant::now() >= market.until {
                        break;
                    }
                }
            }
        }
    }
    Ok(figures)
}

impl Market {
    /// From an inventory to the market; `false` when another change came between.
    async fn list(
        &self,
        redis: &mut MultiplexedConnection,
        inventory: &str,
        item: &str,
    ) -> redis::RedisResult<bool> {
        let price = rand::rng().random_range(1..=100);
        let mut exchange = redis::pipe();
        exchange.atomic();
        exchange.cmd("ZADD").arg(&self.offers).arg(price).arg(item).ignore();
        exchange.cmd("SREM").arg(inventory).arg(item).ignore();
        if self.way == Way::Watch {
            // The article's seller watches the inventory, where nobody else is.
            watch(redis, &[inventory]).await?;
            return exec(redis, &exchange).await;
        }
        let Some(lock) = self.lock(redis, item).await? else {
            return Ok(false);
        };
        let done = exec(redis, &exchange).await;
        plain_lock::release(redis, &lock.0, &lock.1).await?;
        done
    }

    /// From the market to an inventory. `Some(false)`: it is gone; `None`: another change came
    /// between, or the lock could not be had.
    async fn take(
        &self,
        redis: &mut MultiplexedConnection,
        inventory: &str,
        purse: &str,
        item: &str,
    ) -> redis::RedisResult<Option<bool>> {
        let mut lock = None;
        if self.way == Way::Watch {
            // And the buyer the whole market and the purse, as the article's does.
            watch(redis, &[&self.offers, purse]).await?;
        } else {
            lock = self.lock(redis, item).await?;
            if lock.is_none() {
                return Ok(None);
            }
        }
        let mut look = redis::pipe();
        look.cmd("ZSCORE").arg(&self.offers).arg(item).cmd("GET").arg(purse);
        let (price, money): (Option<i64>, i64) = look.query_async(redis).await?;
        let done = if let Some(price) = price.filter(|price| *price <= money) {
            let mut exchange = redis::pipe();
            exchange.atomic();
            exchange.cmd("DECRBY").arg(purse).arg(price).ignore();
            exchange.cmd("INCRBY").arg(self.purse_of_seller(item)).arg(price).ignore();
            exchange.cmd("ZREM").arg(&self.offers).arg(item).ignore();
            exchange.cmd("RPUSH").arg(inventory).arg(item).ignore();
            exec(redis, &exchange).await?.then_some(true)
        } else {
            if self.way == Way::Watch {
                let _: () = redis::cmd("UNWATCH").query_async(redis).await?;
            }
            Some(false)
        };
        if let Some((name, owner)) = lock {
            plain_lock::release(redis, &name, &owner).await?;
        }
        Ok(done)
    }

    /// An item's name begins with its seller's number.
    fn purse_of_seller(&self, item: &str) -> String {
        let number = item.split('-').next().unwrap_or_default();
        format!("{}:seller:{number}:purse", self.prefix)
    }

    async fn lock(
        &self,
        redis: &mut MultiplexedConnection,
        item: &str,
    ) -> redis::RedisResult<Option<(String, String)>> {
        let name = match self.way {
            Way::LockPerItem => format!("{}:lock:{item}", self.prefix),
            _ => format!("{}:lock", self.prefix),
        };
        let owner = Uuid::now_v7().simple().to_string();
        let left = (self.until + OVERTIME / 2).saturating_duration_since(Instant::now());
        let patience = LOCK_WAIT_MAX.min(left);
        let taken = plain_lock::acquire_within(redis, &name, &owner, LEASE_MS, patience).await?;
        Ok(taken.then_some((name, owner)))
    }

    /// Counts where every item is, and clears the place. Returns the faults.
    async fn close(
        &self,
        redis: &mut MultiplexedConnection,
        buyers: usize,
        figures: &Figures,
    ) -> redis::RedisResult<i64> {
        let on_offer: i64 = redis.zcard(&self.offers).await?;
        let mut owned = 0;
        let mut money = 0;
        for number in 0..buyers {
            let inventory = format!("{}:buyer:{number}", self.prefix);
            money += take_out(redis, &format!("{inventory}:purse")).await? - PURSE;
            owned += AsyncCommands::llen::<_, i64>(redis, &inventory).await?;
            let _: i64 = redis.unlink(&inventory).await?;
        }
        let _: i64 = redis.unlink(&self.offers).await?;
        for number in 0..8 {
            let inventory = format!("{}:seller:{number}", self.prefix);
            money += take_out(redis, &format!("{inventory}:purse")).await?;
            let _: i64 = redis.expire(&inventory, KEYS_SECONDS_MAX).await?;
        }
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let misplaced = (signed(figures.listed) - on_offer - owned).abs();
        Ok(misplaced + (signed(figures.bought) - owned).abs() + money.abs())
    }
}

/// What is in a purse, which is gone then.
async fn take_out(redis: &mut MultiplexedConnection, purse: &str) -> redis::RedisResult<i64> {
    let money: Option<i64> = redis.get_del(purse).await?;
    Ok(money.unwrap_or(0))
}

async fn watch(redis: &mut MultiplexedConnection, keys: &[&str]) -> redis::RedisResult<()> {
    let mut command = redis::cmd("WATCH");
    keys.iter().for_each(|key| {
        command.arg(*key);
    });
    command.query_async(redis).await
}

/// `false` when a watched key was changed.
async fn exec(
    redis: &mut MultiplexedConnection,
    exchange: &redis::Pipeline,
) -> redis::RedisResult<bool> {
    let done: Option<()> = exchange.query_async(redis).await?;
    Ok(done.is_some())
}
