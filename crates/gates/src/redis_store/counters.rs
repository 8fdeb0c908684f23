//! Counters in Redis: the units left of each item, for the gates.
//!
//! A counter is loaded from the ledger under an epoch that the ledger hands out; the ledger is
//! never written from a counter (see `loads.rs`). A missing counter means "not loaded", not zero.
//! An epoch that is not the ledger's means that Redis was emptied or has a copy of an earlier load:
//! the counter is loaded again. An older copy of the same load is not noticed by its epoch. It has too
//! many units until the reconciliation, and the arbiter refuses the surplus.

use std::sync::{Arc, LazyLock};

use mysql_connection::Database;
use redis::{RedisError, RedisResult};
use redis_connection::Script;
use tokio::time::Instant;

use super::RedisClient;
use ledger::cache::Cache;
use ledger::rows::redis_lists::CounterLayout;
use ledger::single_flight::SingleFlight;
use shop_domain::ItemId;
use shop_metrics::Metrics;

/// Items whose epoch a process remembers.
const REMEMBERED_MAX: usize = 100_000;
/// Times that a read starts over because the counter was being loaded again.
pub(super) const READ_ATTEMPTS_MAX: u32 = 5;

static GIVE_BACK: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("counter_give_back.lua")));

/// An item's counter as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Units left; negative when a broken gate took too many.
    pub available: i64,
    /// The epoch of the load.
    pub epoch: u64,
}

/// A counter and the queued units of its item, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterAndQueue {
    pub counter: Counter,
    /// Units of orders in the queue: taken from the counter, and not in the ledger yet.
    pub queued: i64,
}

/// The reason why a counter could not be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CounterError {
    /// The ledger has no such item.
    #[error("no such item")]
    ItemNotFound,
    /// Redis did not answer; a write may have happened.
    #[error("redis: {0}")]
    Redis(Arc<RedisError>),
    /// The ledger did not answer.
    #[error("mysql: {0}")]
    Mysql(Arc<ledger::Error>),
    /// The counter is being loaded again and again.
    #[error("the counter is being loaded")]
    Loading,
}

impl From<RedisError> for CounterError {
    fn from(error: RedisError) -> Self {
        Self::Redis(Arc::new(error))
    }
}

impl From<ledger::Error> for CounterError {
    fn from(error: ledger::Error) -> Self {
        Self::Mysql(Arc::new(error))
    }
}

/// The counters of all items.
#[derive(Clone)]
pub struct Counters {
    pub(super) redis: RedisClient,
    pub(super) pool: Database,
    pub(super) metrics: Metrics,
    pub(super) epochs: Cache<ItemId, u64>,
    pub(super) loads: SingleFlight<ItemId, Result<u64, CounterError>>,
    pub(super) layout: Layout,
}

/// The layout of counters in the ledger and in Redis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The ledger's table of their epochs.
    pub table: CounterLayout,
    /// Keys over which an item's units are split.
    pub parts: usize,
}

impl Counters {
    /// Makes counters in `redis`, loaded from the ledger behind `pool`.
    pub fn new(redis: RedisClient, pool: Database, metrics: Metrics) -> Self {
        let epochs = Cache::new(REMEMBERED_MAX);
        let loads = SingleFlight::default();
        let layout = Layout { table: CounterLayout::Whole, parts: 1 };
        Self { redis, pool, metrics, epochs, loads, layout }
    }

    /// Makes counters of another layout on the same Redis and ledger.
    pub(super) fn with(&self, layout: Layout) -> Self {
        let whole = Self::new(self.redis.clone(), self.pool.clone(), self.metrics.clone());
        Self { layout, ..whole }
    }

    /// The key of an item's counter.
    pub fn key(&self, item: ItemId) -> String {
        self.key_of(item, 0)
    }

    /// The key of one part of a counter: with a slot of its own, if there are several.
    pub(super) fn key_of(&self, item: ItemId, part: usize) -> String {
        match self.layout.parts {
            1 => self.redis.item_key(item, "stock"),
            _ => format!("{}{{item:{item}:{part}}}:stock", self.redis.prefix()),
        }
    }

    /// Reads an item's counter on the shared connection, loading it first if need be; a load is waited for until `until`.
    pub async fn read(&self, item: ItemId, until: Instant) -> Result<Counter, CounterError> {
        let mut connection = self.redis.shared();
        self.read_on(&mut connection, item, until).await
    }

    /// Reads a counter like [`Counters::read`], on the caller's connection, which may be watching
    /// the key.
    pub async fn read_on<C>(
        &self,
        connection: &mut C,
        item: ItemId,
        until: Instant,
    ) -> Result<Counter, CounterError>
    where
        C: redis::aio::ConnectionLike + Send,
    {
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.epoch(item, until).await?;
            match self.peek_on(connection, item).await? {
                Some(counter) if counter.epoch == epoch => return Ok(counter),
                // Emptied, older, or loaded again by another instance: read the ledger's epoch.
                _ => self.forget_epoch(item),
            }
        }
        Err(CounterError::Loading)
    }

    /// Overwrites the counter with a computed number: the textbook's SET.
    ///
    /// # Errors
    /// Redis'; the write may have happened.
    pub async fn overwrite(&self, item: ItemId, available: i64) -> Result<(), CounterError> {
        let mut command = redis::cmd("HSET");
        command.arg(self.key(item)).arg("available").arg(available);
        Ok(command.exec_async(&mut self.redis.shared()).await?)
    }

    /// Adds units after a refusal by the arbiter, or when an order gave them back. Best effort: the
    /// reconciliation finds missed units.
    pub async fn give_back(&self, item: ItemId, epoch: u64, units: i64) {
        self.give_back_part(item, 0, epoch, units).await;
    }

    pub(super) async fn give_back_part(&self, item: ItemId, part: usize, epoch: u64, units: i64) {
        let mut connection = self.redis.shared();
        let mut call = GIVE_BACK.key(self.key_of(item, part));
        let given = call.arg(epoch).arg(units).invoke_async(&mut connection).await;
        self.count_given_back(item, units, &given);
    }

    /// Counts units of a purchase that were given back unsold (`given` is 1), and logs a failure.
    pub(super) fn count_given_back(&self, item: ItemId, units: i64, given: &RedisResult<u8>) {
        note_given_back(item, given);
        if let Ok(1) = given {
            self.metrics.counters_given_back.inc_by(units.unsigned_abs());
        }
    }
}

/// Logs that units did not come back to a counter.
pub(super) fn note_given_back(item: ItemId, given: &RedisResult<u8>) {
    match given {
        Ok(1) => {
            failpoint!("given-back");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, %item, "units not given back to the counter"),
    }
}
