//! Split counters: the units left of an item over several keys, which a cluster keeps on several
//! servers.
//!
//! Each bucket is a counter of its own, loaded with its share of the ledger's figure, all under one
//! epoch (`redis_buckets` in the ledger). When they are empty although the ledger has units, all of
//! them are loaded again, under the next epoch. Their sum is compared with the ledger by the
//! reconciliation, which repairs single buckets.

use std::sync::LazyLock;

use redis_connection::Script;
use tokio::time::Instant;

use super::counters::{
    Counter, CounterAndQueue, CounterError, Counters, Layout, READ_ATTEMPTS_MAX,
};
use ledger::rows::redis_lists::CounterLayout;
use shop_domain::ItemId;

/// Keys over which an item's units are split.
pub const BUCKETS: usize = 8;

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("bucket_take.lua")));

/// The split counters of all items.
#[derive(Clone)]
pub struct Buckets {
    /// Counters of which each has a key for each bucket.
    pub counters: Counters,
}

/// The result of taking units from the buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gathered {
    /// All its units.
    All(TakenParts),
    /// Too few units were left in this load; the units found went back.
    TooFew {
        /// The epoch of that load.
        epoch: u64,
    },
}

/// Units, by the bucket that they came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenParts {
    item: ItemId,
    epoch: u64,
    taken: Vec<(usize, i64)>,
}

impl Buckets {
    /// Makes the split counters beside whole ones, on the same Redis and ledger.
    pub fn beside(counters: &Counters) -> Self {
        let layout = Layout { table: CounterLayout::Split, parts: BUCKETS };
        Self { counters: counters.with(layout) }
    }

    /// Reads every bucket without loading it; `None` when one is missing or their epochs differ.
    pub async fn peek(&self, item: ItemId) -> Result<Option<Vec<Counter>>, CounterError> {
        let parts = self.counters.peek_parts_on(&mut self.counters.redis.shared(), item).await?;
        Ok(parts.filter(|parts| parts.iter().all(|part| part.epoch == parts[0].epoch)))
    }

    /// Moves the sum of the buckets to `available`, bucket by bucket, while all are still as they
    /// were read; answers whether all was done. The buckets are in several slots, so a unit taken
    /// at the same moment may be missed: the next comparison finds it, and the arbiter sells it
    /// once.
    pub async fn repair(
        &self,
        item: ItemId,
        seen: &[Counter],
        available: i64,
    ) -> Result<bool, CounterError> {
        if self.peek(item).await?.as_deref() != Some(seen) {
            return Ok(false);
        }
        let mut missing = available - seen.iter().map(|part| part.available).sum::<i64>();
        for (part, counter) in seen.iter().enumerate() {
            // Units are added to any bucket, and taken from buckets that have some.
            let change = missing.max(-counter.available.max(0));
            if change == 0 {
                continue;
            }
            let seen = CounterAndQueue { counter: *counter, queued: 0 };
            let target = counter.available + change;
            let is_within = change > 0 || target >= 0;
            assert!(is_within, "a repair takes no more from a bucket than it has");
            if !self.counters.set_part(item, part, seen, target, None).await? {
                return Ok(false);
            }
            missing -= change;
        }
        Ok(missing == 0)
    }

    /// Takes `units`, from bucket `first` if it has them, and otherwise from one after the other. A load is waited for
    /// until `until`.
    ///
    /// # Errors
    /// See [`CounterError`]; units taken until then were given back if Redis answered.
    pub async fn take(
        &self,
        item: ItemId,
        units: i64,
        first: usize,
        until: Instant,
    ) -> Result<Gathered, CounterError> {
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.counters.epoch(item, until).await?;
            let mut parts = TakenParts { item, epoch, taken: Vec::with_capacity(1) };
            let gathered = self.gather(&mut parts, units, first).await;
            if matches!(gathered, Ok(Some(true))) {
                failpoint!("buckets-taken");
                return Ok(Gathered::All(parts));
            }
            self.give_back(&parts).await;
            match gathered? {
                Some(_) => return Ok(Gathered::TooFew { epoch }),
                // Loaded again meanwhile. Parts of the old load were refused just now, and those of buckets that are
                // not loaded yet were counted.
                None => self.counters.forget_epoch(item),
            }
        }
        Err(CounterError::Loading)
    }

    /// Gives units back to their buckets. Best effort: missed units return with the next load.
    pub async fn give_back(&self, parts: &TakenParts) {
        for &(bucket, units) in &parts.taken {
            self.counters.give_back_part(parts.item, bucket, parts.epoch, units).await;
        }
    }

    /// Loads all buckets from the ledger again, unless they were loaded since the load of `epoch`, or a load runs. The
    /// load is waited for until `until`.
    pub async fn load_again(
        &self,
        item: ItemId,
        epoch: u64,
        until: Instant,
    ) -> Result<(), CounterError> {
        self.counters.load_once(item, Some(epoch), until).await.map(|_| ())
    }

    /// Whether `parts` holds all units now; `None` when a bucket is not of its load.
    async fn gather(
        &self,
        parts: &mut TakenParts,
        units: i64,
        first: usize,
    ) -> Result<Option<bool>, CounterError> {
        let mut missing = units;
        for bucket in (0..BUCKETS).map(|step| (first + step) % BUCKETS) {
            let mut call = TAKE.key(self.counters.key_of(parts.item, bucket));
            call.arg(parts.epoch).arg(missing);
            let taken: i64 = call.invoke_async(&mut self.counters.redis.shared()).await?;
            if taken < 0 {
                return Ok(None);
            }
            if taken > 0 {
                parts.taken.push((bucket, taken));
                missing -= taken;
            }
            if missing == 0 {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }
}
