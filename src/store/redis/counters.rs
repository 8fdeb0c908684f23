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
use crate::store::mysql::stock;

/// Items whose epoch a process remembers.
const REMEMBERED_MAX: u64 = 100_000;
/// How long a process waits for another one's load before it loads itself.
const LOAD_WAIT: Duration = Duration::from_millis(250);
/// How often it looks meanwhile.
const LOAD_LOOK: Duration = Duration::from_millis(10);
/// How often a read starts over because the counter was being loaded again.
const READ_ATTEMPTS_MAX: u32 = 5;

static LOAD: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_load.lua")));
static GIVE_BACK: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_give_back.lua")));
static REPAIR: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_repair.lua")));

/// An item's counter as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Units left; negative when a broken gate took too many.
    pub available: i64,
    /// Which load of the counter this is.
    pub epoch: u64,
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
    redis: RedisClient,
    pool: MySqlPool,
    metrics: Metrics,
    epochs: Cache<ItemId, u64>,
}

impl Counters {
    /// Counters in `redis`, loaded from the ledger behind `pool`.
    #[must_use]
    pub fn new(redis: RedisClient, pool: MySqlPool, metrics: Metrics) -> Self {
        Self { redis, pool, metrics, epochs: Cache::new(REMEMBERED_MAX) }
    }

    /// Where an item's counter lives.
    #[must_use]
    pub fn key(&self, item: ItemId) -> String {
        format!("{}{{item:{item}}}:stock", self.redis.prefix())
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
            let load = self.current_epoch(item);
            let epoch =
                self.epochs.try_get_with(item, load).await.map_err(|error| (*error).clone())?;
            match self.peek_on(connection, item).await? {
                Some(counter) if counter.epoch == epoch => return Ok(counter),
                // Emptied, older, or loaded again by another instance: ask the ledger which.
                _ => self.epochs.invalidate(&item).await,
            }
        }
        Err(CounterError::Loading)
    }

    /// Reads what is there, loaded or not, current or not.
    ///
    /// # Errors
    /// Redis'.
    pub async fn peek(&self, item: ItemId) -> Result<Option<Counter>, CounterError> {
        self.peek_on(&mut self.redis.shared(), item).await
    }

    async fn peek_on<C>(
        &self,
        connection: &mut C,
        item: ItemId,
    ) -> Result<Option<Counter>, CounterError>
    where
        C: redis::aio::ConnectionLike + Send,
    {
        let (epoch, available): (Option<u64>, Option<i64>) = redis::cmd("HMGET")
            .arg(self.key(item))
            .arg(&["epoch", "available"])
            .query_async(connection)
            .await?;
        Ok(epoch.zip(available).map(|(epoch, available)| Counter { available, epoch }))
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
        let mut connection = self.redis.shared();
        let mut call = GIVE_BACK.key(self.key(item));
        let given: Result<u8, _> = call.arg(epoch).arg(units).invoke_async(&mut connection).await;
        match given {
            Ok(1) => {
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

    /// Sets the counter to the ledger's figure if it still is what was seen; whether it was set.
    ///
    /// # Errors
    /// Redis'.
    pub async fn repair(
        &self,
        item: ItemId,
        seen: Counter,
        available: i64,
    ) -> Result<bool, CounterError> {
        let mut call = REPAIR.key(self.key(item));
        call.arg(seen.epoch).arg(seen.available).arg(available);
        let set: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(set == 1)
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

    async fn ledger_epoch(&self, item: ItemId) -> Result<Option<u64>, CounterError> {
        let row = sqlx::query("SELECT epoch FROM redis_counters WHERE item_id = ?")
            .bind(item.get())
            .fetch_optional(&self.pool)
            .await?;
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
        let query = match known {
            None => sqlx::query("INSERT IGNORE INTO redis_counters (item_id, epoch) VALUES (?, ?)")
                .bind(item.get())
                .bind(next),
            Some(known) => {
                sqlx::query("UPDATE redis_counters SET epoch = ? WHERE item_id = ? AND epoch = ?")
                    .bind(next)
                    .bind(item.get())
                    .bind(known)
            }
        };
        let done = query.execute(&self.pool).await?;
        Ok((done.rows_affected() == 1).then_some(next))
    }

    async fn load(&self, item: ItemId, epoch: u64) -> Result<u64, CounterError> {
        let row = stock::read(&self.pool, item).await?.ok_or(CounterError::ItemNotFound)?;
        let mut call = LOAD.key(self.key(item));
        call.arg(epoch).arg(row.available);
        let _: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        self.metrics.counters_rebuilt.inc();
        tracing::debug!(%item, epoch, available = row.available, "counter loaded from the ledger");
        Ok(epoch)
    }
}
