//! Compares the Redis counters with the ledger, and repairs what two looks agree on.
//!
//! While a sale runs the two differ by what is in flight. A difference that two looks show
//! unchanged, with the ledger's version unchanged too, is drift: units of a purchase that died on
//! its way, or sales by strategies that do not use the counter. The counter is then set to the
//! ledger's figure, less what is queued, unless anybody has touched either meanwhile. Items without an arbiter are only
//! watched: nothing but the counter stands between them and overselling. Of a counter that is split
//! over buckets the sum is compared, and single buckets are set right.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::{MySqlPool, Row};

use super::Job;
use crate::domain::{ArbiterMode, ItemId};
use crate::metrics::Metrics;
use crate::store::redis::{Buckets, Counter, CounterAndQueue, CounterError, Counters};

/// Items that one run looks at: the newest.
const ITEMS_MAX: u32 = 200;

/// The counters of items with one key, and of those split over several.
const WHOLE: &str = "redis_counters";
const SPLIT: &str = "redis_buckets";

/// The comparison.
pub struct Reconcile {
    pool: MySqlPool,
    counters: Counters,
    buckets: Buckets,
    metrics: Metrics,
    period: Duration,
    last: Mutex<Looks>,
}

/// What one run saw, by item and table.
type Looks = HashMap<(ItemId, &'static str), Look>;

/// One counter as one look saw it.
#[derive(Clone, PartialEq, Eq)]
struct Look {
    seen: Seen,
    available: i64,
    version: u64,
    arbiter: ArbiterMode,
}

/// What Redis has.
#[derive(Clone, PartialEq, Eq)]
enum Seen {
    Whole(CounterAndQueue),
    Split(Vec<Counter>),
}

impl Seen {
    /// What the ledger should say, by Redis.
    fn units(&self) -> i64 {
        match self {
            Self::Whole(seen) => seen.counter.available + seen.queued,
            Self::Split(parts) => parts.iter().map(|part| part.available).sum(),
        }
    }
}

impl Reconcile {
    /// Compares `counters`, and the buckets beside them, with the ledger every `period`.
    #[must_use]
    pub fn new(pool: MySqlPool, counters: Counters, metrics: Metrics, period: Duration) -> Self {
        let buckets = Buckets::beside(&counters);
        Self { pool, counters, buckets, metrics, period, last: Mutex::default() }
    }

    async fn compare(&self) -> Result<String, String> {
        let mut looks = self.look(WHOLE).await?;
        looks.extend(self.look(SPLIT).await?);
        let (mut drift_units, mut repaired) = (0, 0);
        for (&(item, table), look) in &looks {
            let drift = look.seen.units() - look.available;
            if drift == 0 {
                continue;
            }
            drift_units += drift.abs();
            let agreed = self.previous(item, table).as_ref() == Some(look);
            if agreed && look.arbiter == ArbiterMode::On {
                let repair = self.repair(item, look).await;
                if repair.map_err(|error| error.to_string())? {
                    tracing::info!(%item, table, drift, "counter set to the ledger's figure");
                    repaired += 1;
                }
            }
        }
        self.metrics.counters_drift.set(drift_units);
        let compared = looks.len();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = looks;
        Ok(format!("{compared} counters compared, {drift_units} units apart, {repaired} repaired"))
    }

    fn previous(&self, item: ItemId, table: &'static str) -> Option<Look> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&(item, table)).cloned()
    }

    async fn repair(&self, item: ItemId, look: &Look) -> Result<bool, CounterError> {
        match &look.seen {
            Seen::Whole(seen) => self.counters.repair(item, *seen, look.available).await,
            Seen::Split(parts) => self.buckets.repair(item, parts, look.available).await,
        }
    }

    async fn look(&self, table: &'static str) -> Result<Looks, String> {
        let statement = format!(
            "SELECT stock.item_id, available, version, arbiter, epoch FROM {table} \
             JOIN stock ON stock.item_id = {table}.item_id \
             JOIN items ON items.id = stock.item_id ORDER BY stock.item_id DESC LIMIT ?"
        );
        let rows = sqlx::query(&statement).bind(ITEMS_MAX).fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| error.to_string())?;
        let mut looks = HashMap::with_capacity(rows.len());
        for row in &rows {
            let read = || -> sqlx::Result<_> {
                Ok((
                    row.try_get("item_id")?,
                    row.try_get("available")?,
                    row.try_get("version")?,
                    row.try_get("arbiter")?,
                    row.try_get("epoch")?,
                ))
            };
            let (id, available, version, arbiter, epoch): (i64, i64, u64, String, u64) =
                read().map_err(|error| error.to_string())?;
            let (Some(item), Some(arbiter)) = (ItemId::new(id), ArbiterMode::parse(&arbiter))
            else {
                continue;
            };
            let seen = match table {
                SPLIT => self.buckets.peek(item).await.map(|parts| parts.map(Seen::Split)),
                _ => self.counters.peek_with_queue(item).await.map(|seen| seen.map(Seen::Whole)),
            };
            let seen = seen.map_err(|error| error.to_string())?;
            // Of an older load: it is loaded again when somebody uses it, and until then not used.
            let is_current = |seen: &Seen| match seen {
                Seen::Whole(_) => true,
                Seen::Split(parts) => parts.iter().all(|part| part.epoch == epoch),
            };
            if let Some(seen) = seen.filter(is_current) {
                looks.insert((item, table), Look { seen, available, version, arbiter });
            }
        }
        Ok(looks)
    }
}

impl Job for Reconcile {
    fn name(&self) -> &'static str {
        "reconcile"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn run(&self) -> BoxFuture<'_, Result<String, String>> {
        self.compare().boxed()
    }
}
