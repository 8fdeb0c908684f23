//! Items: reading them, creating them, editing and restocking them.
//!
//! One cache holds the last state of each item that was read. A purchase may use a state that is
//! half a second old, so any number of buyers costs the ledger two reads a second; a page reads the
//! ledger each time. Items that are asked for at the same time are read with one statement. While the ledger does not answer, pages show the cached state with its age; a
//! purchase uses it only to refuse an item that was sold out.

mod edit;
mod groups;
mod reads;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::MySqlPool;
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::arbiter::WaitingLine;
use crate::domain::{Clock, ItemId, LedgerError, OrderStatus};
use crate::store::breaker::Breaker;
use crate::store::cache::Cache;
use crate::store::mysql::{self, failed_read, items, orders, waiting_list};
use crate::store::redis::Counters;
use crate::store::single_flight::SingleFlight;

use reads::ItemReads;

pub use crate::store::mysql::items::StockedItem;
pub use crate::store::mysql::orders::OrderCount;
pub use edit::{CreateError, EditError, StrategyError, check, create};
pub use groups::GroupError;

/// Items in the cache.
const CACHED_MAX: usize = 20_000;
/// The greatest age of a state that is shown while the ledger does not answer.
const AGE_MAX: Duration = Duration::from_secs(600);
/// How long a sale stays on the shop's list after its end.
const LISTED_AFTER_END: time::Duration = time::Duration::DAY;

/// A value from the ledger or from the cache.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// The value.
    pub value: T,
    /// Its age; `None` when the ledger answered.
    pub age: Option<Duration>,
}

/// Error: the ledger does not answer, and the cache has no value.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the ledger does not answer")]
pub struct Unreachable;

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
struct Cached {
    /// The last answer of the ledger and its time; `None` before the first answer.
    answer: Option<(Option<StockedItem>, Instant)>,
    /// The time of the last read, answered or not; `None` once the item was forgotten.
    asked_at: Option<Instant>,
    /// Whether the ledger answered the last read.
    is_current: bool,
}

/// The shop's list, and the time of its read.
type Listed = (Vec<StockedItem>, Instant);

/// The items. Clones share the cache.
#[derive(Clone)]
pub struct Catalog {
    pool: MySqlPool,
    breaker: Breaker,
    counters: Counters,
    /// Who gets restocked units.
    line: WaitingLine,
    reads: ItemReads,
    items: Cache<ItemId, Cached>,
    flights: SingleFlight<ItemId, Cached>,
    shop: Arc<RwLock<Option<Listed>>>,
}

impl Catalog {
    /// Makes a catalog with an empty cache. Each read sets the database's time of `clock`; restocked
    /// units go to the buyers in `line`.
    #[must_use]
    pub fn new(
        pool: MySqlPool,
        breaker: Breaker,
        counters: Counters,
        clock: Clock,
        line: WaitingLine,
    ) -> Self {
        let (items, flights) = (Cache::new(CACHED_MAX), SingleFlight::new());
        let reads = ItemReads::new(pool.clone(), breaker.clone(), clock);
        Self { pool, breaker, counters, line, reads, items, flights, shop: Arc::default() }
    }

    /// Reads an item from the ledger, or from the cache while the ledger does not answer.
    ///
    /// # Errors
    /// When the ledger does not answer and the cache does not have the item.
    pub async fn find(&self, id: ItemId) -> Result<Seen<Option<StockedItem>>, Unreachable> {
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
    ///
    /// # Errors
    /// As for [`Self::find`].
    pub async fn find_recent(
        &self,
        id: ItemId,
        age_max: Duration,
    ) -> Result<Seen<Option<StockedItem>>, Unreachable> {
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
            self.items.insert(id, Cached { asked_at: None, ..cached });
        }
    }

    /// Reads the shop's sales that are not over for longer than a day, soonest end first, as
    /// [`Self::find`] reads an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the list was not read lately.
    pub async fn list_shop(
        &self,
        now: OffsetDateTime,
    ) -> Result<Seen<Vec<StockedItem>>, Unreachable> {
        if let Ok(listed) = self.ask(items::list_shop(&self.pool, now - LISTED_AFTER_END)).await {
            let mut shop = self.shop.write().unwrap_or_else(PoisonError::into_inner);
            *shop = Some((listed.clone(), Instant::now()));
            return Ok(Seen { value: listed, age: None });
        }
        let shop = self.shop.read().unwrap_or_else(PoisonError::into_inner);
        let (listed, read_at) = shop.as_ref().ok_or(Unreachable)?;
        let age = Some(read_at.elapsed()).filter(|age| *age <= AGE_MAX).ok_or(Unreachable)?;
        Ok(Seen { value: listed.clone(), age: Some(age) })
    }

    /// Reads the figures of a sale for the operator's console; `None` when there is no such item.
    ///
    /// # Errors
    /// When the ledger does not answer. Without Redis the counter is left out.
    pub async fn figures(&self, id: ItemId) -> Result<Option<SaleFigures>, LedgerError> {
        let read = async {
            let Some(stocked) = items::find(&self.pool, id).await? else { return Ok(None) };
            let orders = orders::count_by_status(&self.pool, id).await?;
            let line = waiting_list::counts(&self.pool, id).await?;
            Ok(Some((stocked, orders, line)))
        };
        let read = mysql::ask(&self.breaker, read).await.map_err(|error| failed_read(&error))?;
        let Some((stocked, orders, (waiting, offered))) = read else { return Ok(None) };
        let counter = self.counters.peek(id).await.ok().flatten();
        let counter_available = counter.map(|counter| counter.available);
        Ok(Some(SaleFigures { stocked, orders, counter_available, waiting, offered }))
    }

    /// Reads an item from the ledger; keeps the last answer when the ledger does not answer.
    async fn read(&self, id: ItemId) -> Cached {
        let started = Instant::now();
        let answer = self.reads.read(id).await.ok().map(|found| (found, Instant::now()));
        let asked_at = Some(Instant::now());
        if answer.is_some() {
            return Cached { answer, asked_at, is_current: true };
        }
        match self.items.get(id) {
            // Another caller got an answer meanwhile.
            Some(cached) if cached.is_current && cached.asked_at > Some(started) => cached,
            Some(Cached { answer, .. }) => Cached { answer, asked_at, is_current: false },
            None => Cached { answer: None, asked_at, is_current: false },
        }
    }

    /// Reads the ledger, unless its breaker is open.
    async fn ask<T>(
        &self,
        question: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, Unreachable> {
        mysql::ask(&self.breaker, question).await.map_err(|error| {
            if !self.breaker.is_open() {
                tracing::warn!(%error, "catalog not read");
            }
            Unreachable
        })
    }
}

impl Cached {
    fn seen(self) -> Result<Seen<Option<StockedItem>>, Unreachable> {
        match self.answer {
            Some((value, _)) if self.is_current => Ok(Seen { value, age: None }),
            Some((Some(item), read_at)) if read_at.elapsed() <= AGE_MAX => {
                Ok(Seen { value: Some(item), age: Some(read_at.elapsed()) })
            }
            _ => Err(Unreachable),
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

    fn cached(is_current: bool) -> Cached {
        let now = Instant::now();
        Cached { answer: Some((None, now)), asked_at: Some(now), is_current }
    }

    #[test]
    fn that_there_is_no_item_is_believed_only_while_the_ledger_says_so() {
        assert!(matches!(cached(true).seen(), Ok(Seen { value: None, age: None })));
        assert!(cached(false).seen().is_err());
    }

    #[test]
    fn what_was_forgotten_or_never_read_is_read_again() {
        let age_max = Duration::from_secs(60);
        assert!(!cached(true).is_older_than(age_max));
        assert!(Cached { asked_at: None, ..cached(true) }.is_older_than(age_max));
        assert!(Cached { answer: None, ..cached(false) }.is_older_than(age_max));
    }
}
