//! Items: reading them, creating them, editing and restocking them.
//!
//! One cache holds the last state of each item that was read. A purchase may use a state that is
//! half a second old, so any number of buyers costs the ledger two reads a second; a page reads the
//! ledger each time. Items that are asked for at the same time are read with one statement, and one read
//! serves all who wait for the list or for a product. While the ledger does not answer, pages show the
//! cached state with its age; a purchase uses it only to refuse an item that was sold out.

mod create;
mod edit;
mod list;
mod products;

use std::time::Duration;

use futures::FutureExt;
use mysql_connection::Database;
use tokio::time::Instant;

use gates::redis_store::Counters;
use ledger::Ledger;
use ledger::cache::Cache;
use ledger::gathered::{GatheredReads, Rows};
use ledger::rows::{items, orders, waiting_list};
use ledger::single_flight::SingleFlight;
use ledger::waiting_list::WaitingLine;
use ledger::work::ask;
use shop_domain::{Clock, ItemId, LedgerError, OrderStatus};

use list::ListReads;
use products::ProductReads;

pub use create::{CreateError, check, create};
pub use ledger::catalog::{EditError, StrategyError};
pub use ledger::rows::items::StockedItem;
pub use ledger::rows::orders::OrderCount;
pub use products::ProductWithItems;

/// Items in the cache.
const CACHED_MAX: usize = 20_000;
/// The greatest age of a state that is shown while the ledger does not answer.
const AGE_MAX: Duration = Duration::from_secs(600);

/// A value from the ledger or from the cache.
#[derive(Clone, Debug)]
pub struct CatalogRead<T> {
    pub value: T,
    /// Its age; `None` when the ledger answered.
    pub age: Option<Duration>,
}

/// The figures of a sale at one moment, for its operator.
#[derive(Clone, Debug)]
pub struct SaleFigures {
    /// The item and its stock in the ledger.
    pub stocked: StockedItem,
    /// Its orders in the ledger by status.
    pub orders: Vec<(OrderStatus, OrderCount)>,
    /// Units left by the counter in Redis, if it is loaded.
    pub counter_available: Option<i64>,
    /// Buyers who wait.
    pub waiting: i64,
    /// Units that are held for buyers who waited.
    pub offered: i64,
}

/// The cache entry of one item.
#[derive(Clone)]
struct CacheEntry {
    /// The last answer of the ledger and its time; `None` before the first answer.
    answer: Option<(Option<StockedItem>, Instant)>,
    /// The time of the last read, answered or not; `None` once the item was forgotten.
    asked_at: Option<Instant>,
    /// Whether the ledger answered the last read.
    is_current: bool,
}

/// The items. Clones share the cache.
#[derive(Clone)]
pub struct Catalog {
    ledger: Ledger,
    counters: Counters,
    reads: GatheredReads<StockedItem>,
    lists: ListReads,
    products: ProductReads,
    /// Who gets restocked units.
    line: WaitingLine,
    items: Cache<ItemId, CacheEntry>,
    flights: SingleFlight<ItemId, CacheEntry>,
}

impl Catalog {
    /// Makes a catalog with an empty cache. Each read sets the ledger's time of `clock`; restocked units
    /// go to the buyers in `line`.
    pub fn new(ledger: Ledger, counters: Counters, clock: Clock, line: WaitingLine) -> Self {
        Self {
            lists: list::reads(ledger.clone(), clock.clone()),
            products: products::reads(ledger.clone()),
            reads: reads(ledger.clone(), clock),
            ledger,
            counters,
            line,
            items: Cache::new(CACHED_MAX),
            flights: SingleFlight::default(),
        }
    }

    /// Reads an item from the ledger, or from the cache while the ledger does not answer.
    ///
    /// # Errors
    /// When the ledger does not answer and the cache does not have the item.
    pub async fn find(&self, id: ItemId) -> Result<CatalogRead<Option<StockedItem>>, LedgerError> {
        let read = self.read(id).await;
        // A failed read is stored too, so that a purchase knows that the ledger does not answer.
        // An item that was never read is not stored.
        if matches!(read.answer, Some((Some(_), _))) {
            self.items.insert(id, read.clone());
        }
        read.seen()
    }

    /// Reads an item from the cache if its last read is younger than `age_max`, and from the ledger
    /// otherwise; callers at the same time share one read. A missing item is cached too.
    pub async fn find_recent(
        &self,
        id: ItemId,
        age_max: Duration,
    ) -> Result<CatalogRead<Option<StockedItem>>, LedgerError> {
        let cached = self.items.get(id).filter(|cached| !cached.is_older_than(age_max));
        if let Some(cached) = cached {
            return cached.seen();
        }
        let catalog = self.clone();
        let read = async move {
            let read = catalog.read(id).await;
            catalog.items.insert(id, read.clone());
            read
        };
        self.flights.run(id, || read).await.seen()
    }

    /// Forgets an item's last read, so that the next [`Self::find_recent`] reads the ledger.
    pub fn forget(&self, id: ItemId) {
        if let Some(cached) = self.items.get(id) {
            self.items.insert(id, CacheEntry { asked_at: None, ..cached });
        }
    }

    /// Reads the figures of a sale for the operator's console; `None` when there is no such item.
    ///
    /// # Errors
    /// When the ledger does not answer. Without Redis the counter is left out.
    pub async fn figures(&self, id: ItemId) -> Result<Option<SaleFigures>, LedgerError> {
        let pool = &self.ledger.pool;
        let read = self.ledger.read(async {
            let stocked = items::find(pool, id).await?;
            let orders = orders::count_by_status(pool, id).await?;
            Ok((stocked, orders, waiting_list::counts(pool, id).await?))
        });
        let (stocked, orders, (waiting, offered)) = read.await?;
        let Some(stocked) = stocked else { return Ok(None) };
        let counter = self.counters.peek(id).await.ok().flatten();
        let counter_available = counter.map(|counter| counter.available);
        Ok(Some(SaleFigures { stocked, orders, counter_available, waiting, offered }))
    }

    /// The connections to the ledger.
    pub fn pool(&self) -> &Database {
        &self.ledger.pool
    }

    /// Reads an item from the ledger; keeps the last answer when the ledger does not answer.
    async fn read(&self, id: ItemId) -> CacheEntry {
        let started = Instant::now();
        let answer = self.reads.read(id).await.ok().map(|found| (found, Instant::now()));
        let asked_at = Some(Instant::now());
        if answer.is_some() {
            return CacheEntry { answer, asked_at, is_current: true };
        }
        match self.items.get(id) {
            // Another caller got an answer meanwhile.
            Some(cached) if cached.is_current && cached.asked_at > Some(started) => cached,
            Some(CacheEntry { answer, .. }) => CacheEntry { answer, asked_at, is_current: false },
            None => CacheEntry { answer: None, asked_at, is_current: false },
        }
    }
}

/// Reads items, unless the breaker of the ledger is open.
fn reads(ledger: Ledger, clock: Clock) -> GatheredReads<StockedItem> {
    GatheredReads::new(move |ids| {
        let ledger = ledger.clone();
        let clock = clock.clone();
        async move { read_several(&ledger, &clock, &ids).await }.boxed()
    })
}

async fn read_several(
    Ledger { pool, breaker, .. }: &Ledger,
    clock: &Clock,
    ids: &[ItemId],
) -> Rows<StockedItem> {
    let started = Instant::now();
    let read = ask(breaker, items::find_several(pool, ids)).await;
    let read = read.map_err(|error| {
        if !breaker.is_open() {
            tracing::warn!(%error, items = ids.len(), "items not read");
        }
        LedgerError::Unavailable
    })?;
    if let Some(ledger_now) = read.ledger_now {
        clock.heard_from_ledger(ledger_now, started.into_std());
    }
    let found = read.found.into_iter().map(|(id, stocked)| {
        let stocked = stocked.map_err(|error| {
            tracing::warn!(%error, item = %id, "row of an item not readable");
            LedgerError::Unavailable
        });
        (id, stocked)
    });
    Ok(found.collect())
}

impl CacheEntry {
    fn seen(self) -> Result<CatalogRead<Option<StockedItem>>, LedgerError> {
        match self.answer {
            Some((value, _)) if self.is_current => Ok(CatalogRead { value, age: None }),
            Some((Some(item), read_at)) if read_at.elapsed() <= AGE_MAX => {
                Ok(CatalogRead { value: Some(item), age: Some(read_at.elapsed()) })
            }
            _ => Err(LedgerError::Unavailable),
        }
    }

    fn is_older_than(&self, age_max: Duration) -> bool {
        // An entry without an answer is always read again.
        self.answer.is_none() || self.asked_at.is_none_or(|at| at.elapsed() > age_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(is_current: bool) -> CacheEntry {
        let now = Instant::now();
        CacheEntry { answer: Some((None, now)), asked_at: Some(now), is_current }
    }

    #[test]
    fn that_there_is_no_item_is_believed_only_while_the_ledger_says_so() {
        assert!(matches!(cached(true).seen(), Ok(CatalogRead { value: None, age: None })));
        assert!(cached(false).seen().is_err());
    }
}
