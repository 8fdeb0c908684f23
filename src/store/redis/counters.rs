//! The units left of an item, as the Redis gates count them.
//!
//! A counter is loaded from the ledger under an epoch that the ledger hands out, and never the
//! other way. A missing counter means "not loaded", not zero. An epoch that is not the ledger's
//! means that Redis was emptied or is an older copy: the counter is loaded again.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use moka::future::Cache;
use redis::{RedisError, Script};
use sqlx::{MySqlPool, Row};

use super::RedisClient;
use crate::domain::ItemId;
use crate::metrics::Metrics;
use crate::store::mysql::{answered, stock};

/// Items whose epoch a process remembers.
const REMEMBERED_MAX: u64 = 100_000;
/// How long a process waits for another one's load before it loads itself.
const LOAD_WAIT: Duration = Duration::from_millis(250);
/// How often it looks meanwhile.
const LOAD_LOOK: Duration = Duration::from_millis(10);
/// How often a read starts over because the counter was being loaded again.
pub(super) const READ_ATTEMPTS_MAX: u32 = 5;

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_load.lua")));
static GIVE_BACK: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_give_back.lua")));

/// An item's counter as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Units left; negative when a broken gate took too many.
    pub available: i64,
    /// Which load of the counter this is.
    pub epoch: u64,
}

/// A counter with what is queued of its item, as both were at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterAndQueue {
    /// The counter.
    pub counter: Counter,
    /// Units of orders in the queue: taken from the counter, and not in the ledger yet.
    pub queued: i64,
}

/// Why a counter could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CounterError {
    /// No such item in the ledger.
    #[error("no such item")]
    ItemNotFound,
    /// Redis did not answer; a write may have happened.
    #[error("redis: {0}")]
    Redis(Arc<RedisError>),
    /// The ledger did not answer.
    #[error("mysql: {0}")]
    Mysql(Arc<sqlx::Error>),
    /// The counter is being loaded again and again.
    #[error("the counter is being loaded")]
    Loading,
}

impl From<RedisError> for CounterError {
    fn from(error: RedisError) -> Self {
        Self::Redis(Arc::new(error))
    }
}

impl From<sqlx::Error> for CounterError {
    fn from(error: sqlx::Error) -> Self {
        Self::Mysql(Arc::new(error))
    }
}

/// The counters of all items.
#[derive(Clone)]
pub struct Counters {
    pub(super) redis: RedisClient,
    pub(super) pool: MySqlPool,
    metrics: Metrics,
    epochs: Cache<ItemId, u64>,
    pub(super) layout: Layout,
}

/// Where counters are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The ledger's table of their epochs.
    pub table: &'static str,
    /// Keys over which an item's units are split.
    pub parts: usize,
}

impl Counters {
    /// Counters in `redis`, loaded from the ledger behind `pool`.
    #[must_use]
    pub fn new(redis: RedisClient, pool: MySqlPool, metrics: Metrics) -> Self {
        Self::with_layout(redis, pool, metrics, Layout { table: "redis_counters", parts: 1 })
    }

    pub(super) fn with_layout(
        redis: RedisClient,
        pool: MySqlPool,
        metrics: Metrics,
        layout: Layout,
    ) -> Self {
        Self { redis, pool, metrics, epochs: Cache::new(REMEMBERED_MAX), layout }
    }

    /// Counters of another layout on the same Redis and ledger.
    pub(super) fn with(&self, layout: Layout) -> Self {
        Self::with_layout(self.redis.clone(), self.pool.clone(), self.metrics.clone(), layout)
    }

    /// Where an item's counter lives.
    #[must_use]
    pub fn key(&self, item: ItemId) -> String {
        self.key_of(item, 0)
    }

    /// Where a part of it lives: in a slot of its own, if there are several.
    pub(super) fn key_of(&self, item: ItemId, part: usize) -> String {
        let prefix = self.redis.prefix();
        match self.layout.parts {
            1 => format!("{prefix}{{item:{item}}}:stock"),
            _ => format!("{prefix}{{item:{item}:{part}}}:stock"),
        }
    }

    pub(super) fn queued_key(&self, item: ItemId) -> String {
        format!("{}{{item:{item}}}:queued", self.redis.prefix())
    }

    /// Reads an item's counter on the shared connection, loading it first if need be.
    ///
    /// # Errors
    /// See [`CounterError`].
    pub async fn read(&self, item: ItemId) -> Result<Counter, CounterError> {
        let mut connection = self.redis.shared();
        self.read_on(&mut connection, item).await
    }

    /// The same on the caller's connection, which may be watching the key.
    ///
    /// # Errors
    /// See [`CounterError`].
    pub async fn read_on<C>(
        &self,
        connection: &mut C,
        item: ItemId,
    ) -> Result<Counter, CounterError>
    where
        C: redis::aio::ConnectionLike + Send,
    {
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.epoch(item).await?;
            match self.peek_on(connection, item).await? {
                Some(counter) if counter.epoch == epoch => return Ok(counter),
                // Emptied, older, or loaded again by another instance: ask the ledger which.
                _ => self.forget_epoch(item).await,
            }
        }
        Err(CounterError::Loading)
    }

    /// The ledger's epoch as this process remembers it, with the counter loaded under it once.
    pub(super) async fn epoch(&self, item: ItemId) -> Result<u64, CounterError> {
        let load = self.current_epoch(item);
        self.epochs.try_get_with(item, load).await.map_err(|error| (*error).clone())
    }

    /// What is there is not of the remembered epoch.
    pub(super) async fn forget_epoch(&self, item: ItemId) {
        self.epochs.invalidate(&item).await;
    }

    /// Writes a computed number back, whatever stands there: the textbook's SET.
    ///
    /// # Errors
    /// Redis'; the write may have happened.
    pub async fn overwrite(&self, item: ItemId, available: i64) -> Result<(), CounterError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(item)).arg("available").arg(available);
        Ok(command.exec_async(&mut self.redis.shared()).await?)
    }

    /// Adds units: after a refusal behind the gate, or when an order gave them back. Best effort:
    /// what is missed here is found by the reconciliation.
    pub async fn give_back(&self, item: ItemId, epoch: u64, units: i64) {
        self.give_back_part(item, 0, epoch, units).await;
    }

    pub(super) async fn give_back_part(&self, item: ItemId, part: usize, epoch: u64, units: i64) {
        let mut connection = self.redis.shared();
        let mut call = GIVE_BACK.key(self.key_of(item, part));
        let given: Result<u8, _> = call.arg(epoch).arg(units).invoke_async(&mut connection).await;
        self.count_given_back(item, units, given);
    }

    /// Keeps the books on giving back: 1 when the units were added.
    pub(super) fn count_given_back(&self, item: ItemId, units: i64, given: Result<u8, RedisError>) {
        match given {
            Ok(1) => {
                failpoint!("given-back");
                self.metrics.counters_given_back.inc_by(units.unsigned_abs());
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, %item, "units were not given back to the counter"),
        }
    }

    /// Tells the counter about a change that the ledger made by itself (a cancellation, a
    /// restock), if it is loaded. Best effort, as above.
    pub async fn follow(&self, item: ItemId, units: i64) {
        if let Ok(Some(counter)) = self.peek(item).await {
            self.give_back(item, counter.epoch, units).await;
        }
    }

    /// The ledger's epoch, with the counter in Redis loaded under it.
    async fn current_epoch(&self, item: ItemId) -> Result<u64, CounterError> {
        let waiting_until = tokio::time::Instant::now() + LOAD_WAIT;
        loop {
            let known = self.ledger_epoch(item).await?;
            let there = self.peek(item).await?;
            if let (Some(known), Some(counter)) = (known, there)
                && counter.epoch == known
            {
                return Ok(known);
            }
            // One instance wins the right to load; the others see its epoch and wait for it. An
            // emptied Redis looks like a load that takes too long.
            let there = there.map(|counter| counter.epoch);
            let being_loaded = known.is_some() && there < known;
            let abandoned = tokio::time::Instant::now() >= waiting_until;
            if (!being_loaded || abandoned)
                && let Some(epoch) = self.claim(item, known, there).await?
            {
                return self.load(item, epoch).await;
            }
            tokio::time::sleep(LOAD_LOOK).await;
        }
    }

    /// Loads the counter from the ledger again, unless somebody did since the load of `epoch`.
    pub(super) async fn load_again(&self, item: ItemId, epoch: u64) -> Result<(), CounterError> {
        if let Some(next) = self.claim(item, Some(epoch), None).await? {
            self.load(item, next).await?;
        }
        self.forget_epoch(item).await;
        Ok(())
    }

    async fn ledger_epoch(&self, item: ItemId) -> Result<Option<u64>, CounterError> {
        let statement = format!("SELECT epoch FROM {} WHERE item_id = ?", self.layout.table);
        let row = sqlx::query(&statement).bind(item.get()).fetch_optional(&self.pool);
        let row = answered(row).await?;
        Ok(row.map(|row| row.try_get("epoch")).transpose()?)
    }

    /// Takes the next epoch if `known` still is the ledger's; `None` when another instance did.
    async fn claim(
        &self,
        item: ItemId,
        known: Option<u64>,
        there: Option<u64>,
    ) -> Result<Option<u64>, CounterError> {
        let next = known.max(there).unwrap_or(0) + 1;
        let table = self.layout.table;
        let statement = match known {
            None => format!("INSERT IGNORE INTO {table} (epoch, item_id) VALUES (?, ?)"),
            Some(_) => format!("UPDATE {table} SET epoch = ? WHERE item_id = ? AND epoch = ?"),
        };
        let mut query = sqlx::query(&statement).bind(next).bind(item.get());
        if let Some(known) = known {
            query = query.bind(known);
        }
        let done = answered(query.execute(&self.pool)).await?;
        Ok((done.rows_affected() == 1).then_some(next))
    }

    async fn load(&self, item: ItemId, epoch: u64) -> Result<u64, CounterError> {
        // Only the whole counter has a queue. First the queue, then the ledger: an order that gets
        // from one to the other meanwhile is seen in both, never in neither.
        let whole = self.layout.parts == 1;
        let queued: Option<i64> = match whole {
            true => {
                let mut command = redis::cmd("HGET");
                command.arg(self.queued_key(item)).arg("units");
                command.query_async(&mut self.redis.shared()).await?
            }
            false => None,
        };
        let row = stock::read(&self.pool, item).await?.ok_or(CounterError::ItemNotFound)?;
        if whole {
            self.load_bought(item, epoch).await?;
        }
        for part in 0..self.layout.parts {
            let mut call = LOAD.key(self.key_of(item, part));
            if whole {
                call.key(self.queued_key(item));
            }
            call.arg(epoch).arg(share(row.available, part, self.layout.parts));
            call.arg(queued.unwrap_or(0));
            let _: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        }
        self.metrics.counters_rebuilt.inc();
        tracing::debug!(%item, epoch, available = row.available, "counter loaded from the ledger");
        Ok(epoch)
    }
}

/// The share of `units` that part number `part` of `parts` gets; all shares add up to `units`.
fn share(units: i64, part: usize, parts: usize) -> i64 {
    let count = |number: usize| i64::try_from(number).expect("a handful of parts");
    let (part, parts) = (count(part), count(parts));
    units.div_euclid(parts) + i64::from(part < units.rem_euclid(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for units in [-9, -1, 0, 1, 7, 8, 9, 1_000_003] {
            assert_eq!(share(units, 0, 1), units);
            let shares: Vec<i64> = (0..8).map(|part| share(units, part, 8)).collect();
            assert_eq!(shares.iter().sum::<i64>(), units);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{shares:?}");
        }
    }
}
