//! The items as everyone may see them: from the ledger, or, while it does not answer, as they were
//! last seen.
//!
//! Pages that only show something had better show a copy that is marked as one than nothing; a
//! purchase is never judged by it, other than to say that an item was sold out.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use moka::sync::Cache;
use sqlx::MySqlPool;
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::store::breaker::Breaker;
use crate::store::mysql;
use crate::store::mysql::items::{self, StockedItem};
use crate::domain::{Clock, ItemId};

/// Items whose last state is remembered.
const REMEMBERED_MAX: u64 = 10_000;
/// The oldest copy that is shown.
const AGE_MAX: Duration = Duration::from_secs(600);

/// Something read, now or earlier.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// What was read.
    pub value: T,
    /// How old it is; `None` for what the ledger says now.
    pub age: Option<Duration>,
}

/// The ledger does not answer, and there is no copy.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the ledger does not answer")]
pub struct Unreachable;

/// The shop's list, and when it was read.
type Listed = (Vec<StockedItem>, Instant);

/// The items. Clones share what was seen.
#[derive(Clone)]
pub struct Catalogue {
    pool: MySqlPool,
    breaker: Breaker,
    /// Hears the database's time with each item.
    clock: Clock,
    items: Cache<ItemId, (StockedItem, Instant)>,
    shop: Arc<RwLock<Option<Listed>>>,
}

impl Catalogue {
    /// Nothing was seen yet; `clock` is told what time it is in the ledger.
    #[must_use]
    pub fn new(pool: MySqlPool, breaker: Breaker, clock: Clock) -> Self {
        let items = Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(AGE_MAX).build();
        Self { pool, breaker, clock, items, shop: Arc::default() }
    }

    /// Reads one item.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not seen lately.
    pub async fn find(&self, id: ItemId) -> Result<Seen<Option<StockedItem>>, Unreachable> {
        let asked = Instant::now();
        if let Ok(found) = self.ask(items::find_with_time(&self.pool, id)).await {
            let Some((stocked, ledger_now)) = found else {
                self.items.invalidate(&id);
                return Ok(Seen { value: None, age: None });
            };
            self.clock.heard_from_ledger(ledger_now, asked.into_std());
            self.items.insert(id, (stocked.clone(), Instant::now()));
            return Ok(Seen { value: Some(stocked), age: None });
        }
        let (stocked, seen) = self.items.get(&id).ok_or(Unreachable)?;
        Ok(Seen { value: Some(stocked), age: Some(seen.elapsed()) })
    }

    /// Reads the sales of the shop.
    ///
    /// # Errors
    /// When the ledger does not answer and the list was not seen lately.
    pub async fn list_shop(
        &self,
        now: OffsetDateTime,
    ) -> Result<Seen<Vec<StockedItem>>, Unreachable> {
        if let Ok(listed) = self.ask(items::list_shop(&self.pool, now)).await {
            let mut shop = self.shop.write().unwrap_or_else(PoisonError::into_inner);
            *shop = Some((listed.clone(), Instant::now()));
            return Ok(Seen { value: listed, age: None });
        }
        let shop = self.shop.read().unwrap_or_else(PoisonError::into_inner);
        let (listed, seen) = shop.as_ref().ok_or(Unreachable)?;
        let age = seen.elapsed();
        if age > AGE_MAX {
            return Err(Unreachable);
        }
        Ok(Seen { value: listed.clone(), age: Some(age) })
    }

    /// Asks the ledger, unless it is known not to answer.
    async fn ask<T>(
        &self,
        question: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, Unreachable> {
        mysql::ask(&self.breaker, question).await.map_err(|error| {
            if !self.breaker.is_open() {
                tracing::warn!(%error, "the catalogue could not be read");
            }
            Unreachable
        })
    }
}
