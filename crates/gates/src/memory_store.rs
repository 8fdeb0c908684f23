//! Counters in this process's memory: the units left of each item.
//!
//! A counter is loaded from the ledger when the process first sells the item, and ends with the
//! process. Each instance of the service has counters of its own, so several instances oversell.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mysql_connection::Database;

use ledger::cache::Cache;
use ledger::rows::items;
use ledger::single_flight::SingleFlight;
use shop_domain::ItemId;

/// Items that a process counts at once; beyond it, the least used counter is dropped.
const COUNTED_MAX: usize = 100_000;

/// The counters of this process. Clones share them.
#[derive(Clone)]
pub struct MemoryCounters {
    pool: Database,
    loaded: Cache<ItemId, MemoryCounter>,
    loads: SingleFlight<ItemId, Found>,
}

/// The result of a load; `None` when there is no such item.
type Found = Result<Option<MemoryCounter>, Arc<ledger::Error>>;

/// One item's counter. Reading and writing are two steps, as on a plain variable.
#[derive(Clone, Debug)]
pub struct MemoryCounter(Arc<AtomicI64>);

impl MemoryCounters {
    /// Makes counters that are loaded from the ledger behind `pool`.
    pub fn new(pool: Database) -> Self {
        Self { pool, loaded: Cache::new(COUNTED_MAX), loads: SingleFlight::default() }
    }

    /// Finds an item's counter, loading it first if need be; `None` when there is no such item.
    pub async fn find(&self, item: ItemId) -> Found {
        if let Some(counter) = self.loaded.get(item) {
            return Ok(Some(counter));
        }
        let pool = self.pool.clone();
        let loaded = self.loaded.clone();
        let load = async move {
            let Some(row) = items::read_stock(&pool, item).await? else { return Ok(None) };
            let make = || MemoryCounter(Arc::new(AtomicI64::new(row.available)));
            // Not replaced: a load that ended just before may have sold from its counter.
            Ok(Some(loaded.get_or_insert_with(item, make)))
        };
        self.loads.run(item, || load).await
    }

    /// Forgets an item's counter, so that it is loaded from the ledger again.
    pub fn forget(&self, item: ItemId) {
        self.loaded.remove(item);
    }
}

impl MemoryCounter {
    /// Units left.
    pub fn read(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Overwrites the counter with a computed number.
    pub fn overwrite(&self, available: i64) {
        self.0.store(available, Ordering::SeqCst);
    }

    /// Adds units that were taken and not sold.
    pub fn give_back(&self, units: i64) {
        self.0.fetch_add(units, Ordering::SeqCst);
    }
}
