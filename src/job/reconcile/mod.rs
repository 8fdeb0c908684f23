//! Compares the Redis counters with the ledger, and repairs what two looks agree on.
//!
//! While a sale runs the two differ by what is in flight. A difference that two looks show
//! unchanged, with the ledger's version unchanged too, is drift: units of a purchase that died on
//! its way, or sales by strategies that do not use the counter. The counter is then set to the
//! ledger's figure, less what is queued, unless anybody has touched either meanwhile. Items without
//! an arbiter are only watched: nothing but the counter stands between them and overselling. Of a
//! counter that is split over buckets the sum is compared, and single buckets are set right.
//!
//! Every counted item has its turn. A run looks at the open sales first, and then at some of those
//! that are over; where its bound ends it stops, and the next run goes on there.

mod walk;

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use redis::ErrorKind;
use sqlx::MySqlPool;
use tokio::sync::Mutex;

use super::Job;
use crate::domain::{ArbiterMode, ItemId};
use crate::metrics::Metrics;
use crate::store::redis::{Buckets, Counter, CounterError, Counters};
use walk::{Counted, Layout, Look, Sales, Seen, Walk};

/// Counters that are asked for at once.
const LOOKS_AT_ONCE: usize = 16;

/// How much one run looks at.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Items that one statement reads.
    pub page: u32,
    /// Pages of open sales, of each layout of counters.
    pub open_pages: u32,
    /// Pages of sales that are over, of each layout of counters.
    pub ended_pages: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { page: 200, open_pages: 10, ended_pages: 1 }
    }
}

/// The comparison.
pub struct Reconcile {
    pool: MySqlPool,
    counters: Counters,
    buckets: Buckets,
    metrics: Metrics,
    period: Duration,
    bounds: Bounds,
    /// Open sales first.
    walks: Mutex<[Walk; 4]>,
}

/// What a run did.
#[derive(Default)]
struct Done {
    compared: usize,
    repaired: usize,
    failed: usize,
    first_failure: String,
}

impl Reconcile {
    /// Compares `counters`, and the buckets beside them, with the ledger every `period`.
    #[must_use]
    pub fn new(pool: MySqlPool, counters: Counters, metrics: Metrics, period: Duration) -> Self {
        let buckets = Buckets::beside(&counters);
        let walks = Mutex::new([
            Walk::new(Layout::Whole, Sales::Open),
            Walk::new(Layout::Split, Sales::Open),
            Walk::new(Layout::Whole, Sales::Ended),
            Walk::new(Layout::Split, Sales::Ended),
        ]);
        let bounds = Bounds::default();
        Self { pool, counters, buckets, metrics, period, bounds, walks }
    }

    /// Limits how much one run looks at.
    #[must_use]
    pub fn with_bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    async fn compare(&self) -> Result<String, String> {
        let mut walks = self.walks.lock().await;
        let mut done = Done::default();
        for walk in &mut *walks {
            let pages = match walk.sales {
                Sales::Open => self.bounds.open_pages,
                Sales::Ended => self.bounds.ended_pages,
            };
            for _ in 0..pages {
                if self.compare_page(walk, &mut done).await? {
                    break;
                }
            }
        }
        let drift_units = walks.iter().map(Walk::drift_units).sum();
        self.metrics.counters_drift.set(drift_units);
        let Done { compared, repaired, failed, first_failure } = done;
        let summary =
            format!("{compared} counters compared, {drift_units} units apart, {repaired} repaired");
        match failed {
            0 => Ok(summary),
            _ => Err(format!("{summary}, {failed} could not be compared: {first_failure}")),
        }
    }

    /// Compares the walk's next page; whether it was the last one.
    async fn compare_page(&self, walk: &mut Walk, done: &mut Done) -> Result<bool, String> {
        let page = walk.next_page(&self.pool, self.bounds.page).await;
        let page = page.map_err(|error| error.to_string())?;
        let layout = walk.layout;
        let mut looks = futures::stream::iter(page.counted)
            .map(|counted| async move { (counted.item, self.look(layout, counted).await) })
            .buffered(LOOKS_AT_ONCE);
        while let Some((item, look)) = looks.next().await {
            let repaired = match look {
                Ok(None) => continue,
                Ok(Some(look)) => {
                    done.compared += 1;
                    let drift = look.drift();
                    if drift == 0 {
                        continue;
                    }
                    let agreed = page.before.get(&item.get()) == Some(&look);
                    let repaired = match agreed && look.arbiter == ArbiterMode::On {
                        true => self.repair(item, &look).await,
                        false => Ok(false),
                    };
                    if matches!(repaired, Ok(true)) {
                        let table = layout.table();
                        tracing::info!(%item, table, drift, "counter set to the ledger's figure");
                    }
                    walk.remember(item, look);
                    repaired
                }
                Err(error) => Err(error),
            };
            match repaired {
                Ok(repaired) => done.repaired += usize::from(repaired),
                Err(error) if is_its_own(&error) => {
                    tracing::warn!(%error, %item, "a counter cannot be compared");
                    done.failed += 1;
                    if done.first_failure.is_empty() {
                        done.first_failure = format!("item {item}: {error}");
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(page.is_last)
    }

    async fn look(&self, layout: Layout, counted: Counted) -> Result<Option<Look>, CounterError> {
        let Counted { item, available, version, arbiter, epoch } = counted;
        let seen = match layout {
            Layout::Whole => self.counters.peek_with_queue(item).await?.map(Seen::Whole),
            // Of an older load: it is loaded again when somebody uses it, and until then not used.
            Layout::Split => {
                let parts = self.buckets.peek(item).await?;
                let is_current = |part: &Counter| part.epoch == epoch;
                parts.filter(|parts| parts.iter().all(is_current)).map(Seen::Split)
            }
        };
        Ok(seen.map(|seen| Look { seen, available, version, arbiter }))
    }

    async fn repair(&self, item: ItemId, look: &Look) -> Result<bool, CounterError> {
        match &look.seen {
            Seen::Whole(seen) => {
                self.counters.repair(item, *seen, look.available, look.version).await
            }
            Seen::Split(parts) => self.buckets.repair(item, parts, look.available).await,
        }
    }
}

/// Whether this is about one counter alone, and Redis answers.
fn is_its_own(error: &CounterError) -> bool {
    match error {
        CounterError::Redis(error) => {
            let unheard = error.is_io_error() || error.kind() == ErrorKind::Parse;
            !unheard && !error.is_unrecoverable_error()
        }
        _ => false,
    }
}

#[async_trait]
impl Job for Reconcile {
    fn name(&self) -> &'static str {
        "reconcile"
    }

    fn period(&self) -> Duration {
        self.period
    }

    async fn run(&self) -> Result<String, String> {
        self.compare().await
    }
}
