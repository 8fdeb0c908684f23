//! Counters in this process's memory: the units left of each item.
//!
//! A counter is loaded from the ledger when the process first sells the item, and ends with the
//! process. Each instance of the service has counters of its own, so several instances oversell.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use moka::future::Cache;
use sqlx::MySqlPool;

use crate::domain::ItemId;
use crate::store::mysql::stock;

/// Items that a process counts at once; beyond it, the least used counter is dropped.
const COUNTED_MAX: u64 = 100_000;

/// The counters of this process. Clones share them.
#[derive(Clone)]
pub struct MemoryCounters {
    pool: MySqlPool,
    loaded: Cache<ItemId, MemoryCounter>,
}

/// One item's counter. Reading and writing are two steps, as on a plain variable.
#[derive(Clone, Debug)]
pub struct MemoryCounter(Arc<AtomicI64>);

impl MemoryCounters {
    /// Makes counters that are loaded from the ledger behind `pool`.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self { pool, loaded: Cache::new(COUNTED_MAX) }
    }

    /// Finds an item's counter, loading it first if need be; `None` when there is no such item.
    ///
    /// # Errors
    /// The database's.
    pub async fn find(&self, item: ItemId) -> Result<Option<MemoryCounter>, Arc<sqlx::Error>> {
        let load = async {
            let row = stock::read(&self.pool, item).await?;
            let row = row.ok_or(sqlx::Error::RowNotFound)?;
            Ok(MemoryCounter(Arc::new(AtomicI64::new(row.available))))
        };
        match self.loaded.try_get_with(item, load).await {
            Ok(counter) => Ok(Some(counter)),
            Err(error) if matches!(*error, sqlx::Error::RowNotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Forgets an item's counter, so that it is loaded from the ledger again.
    pub async fn forget(&self, item: ItemId) {
        self.loaded.invalidate(&item).await;
    }
}

impl MemoryCounter {
    /// Units left.
    #[must_use]
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
