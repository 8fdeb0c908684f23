//! Compares the Redis counters with the ledger, and repairs what two looks agree on.
//!
//! While a sale runs the two differ by what is in flight. A difference that two looks show
//! unchanged, with the ledger's version unchanged too, is drift: units of a purchase that died on
//! its way, or sales by strategies that do not use the counter. The counter is then set to the
//! ledger's figure, less what is queued, unless anybody has touched either meanwhile. Items without an arbiter are only
//! watched: nothing but the counter stands between them and overselling.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use sqlx::{MySqlPool, Row};

use super::Job;
use crate::domain::{ArbiterMode, ItemId};
use crate::metrics::Metrics;
use crate::store::redis::{CounterAndQueue, Counters};

/// Items that one run looks at: the newest.
const ITEMS_MAX: u32 = 200;

/// The comparison.
pub struct Reconcile {
    pool: MySqlPool,
    counters: Counters,
    metrics: Metrics,
    period: Duration,
    last: Mutex<HashMap<ItemId, Look>>,
}

/// One item as one look saw it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    seen: CounterAndQueue,
    available: i64,
    version: u64,
    arbiter: ArbiterMode,
}

impl Reconcile {
    /// Compares `counters` with the ledger every `period`.
    #[must_use]
    pub fn new(pool: MySqlPool, counters: Counters, metrics: Metrics, period: Duration) -> Self {
        Self { pool, counters, metrics, period, last: Mutex::default() }
    }

    async fn compare(&self) -> Result<String, String> {
        let looks = self.look().await?;
        let (mut drift_units, mut repaired) = (0, 0);
        for (&item, look) in &looks {
            let drift = look.seen.counter.available + look.seen.queued - look.available;
            if drift == 0 {
                continue;
            }
            drift_units += drift.abs();
            let agreed = self.previous(item) == Some(*look);
            if agreed && look.arbiter == ArbiterMode::On {
                let repair = self.counters.repair(item, look.seen, look.available);
                if repair.await.map_err(|error| error.to_string())? {
                    tracing::info!(%item, drift, "counter set to the ledger's figure");
                    repaired += 1;
                }
            }
        }
        self.metrics.counters_drift.set(drift_units);
        let compared = looks.len();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = looks;
        Ok(format!("{compared} counters compared, {drift_units} units apart, {repaired} repaired"))
    }

    fn previous(&self, item: ItemId) -> Option<Look> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).get(&item).copied()
    }

    async fn look(&self) -> Result<HashMap<ItemId, Look>, String> {
        let rows = sqlx::query(
            "SELECT stock.item_id, available, version, arbiter FROM redis_counters \
             JOIN stock ON stock.item_id = redis_counters.item_id \
             JOIN items ON items.id = stock.item_id ORDER BY stock.item_id DESC LIMIT ?",
        )
        .bind(ITEMS_MAX)
        .fetch_all(&self.pool)
        .await
        .map_err(|error| error.to_string())?;
        let mut looks = HashMap::with_capacity(rows.len());
        for row in &rows {
            let read = || -> sqlx::Result<_> {
                Ok((
                    row.try_get("item_id")?,
                    row.try_get("available")?,
                    row.try_get("version")?,
                    row.try_get("arbiter")?,
                ))
            };
            let (id, available, version, arbiter): (i64, i64, u64, String) =
                read().map_err(|error| error.to_string())?;
            let (Some(item), Some(arbiter)) = (ItemId::new(id), ArbiterMode::parse(&arbiter))
            else {
                continue;
            };
            let seen = self.counters.peek_with_queue(item).await;
            if let Some(seen) = seen.map_err(|error| error.to_string())? {
                looks.insert(item, Look { seen, available, version, arbiter });
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
