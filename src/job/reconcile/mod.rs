//! Compares the Redis counters with the ledger, and repairs a difference that two inspections agree
//! on.
//!
//! While a sale runs the two differ by the purchases in flight. A difference that two inspections
//! show unchanged, with the ledger's version unchanged too, is drift: units of a purchase that died
//! on its way, or sales by strategies that do not use the counter. The counter is then set to the
//! ledger's figure minus the queued units, unless one of them has changed meanwhile. Items without
//! an arbiter are only inspected: their counter alone prevents overselling. Of a counter that is
//! split over buckets the sum is compared, and single buckets are repaired.
//!
//! The counter of a sale has a field for each buyer. It is removed when the sale has been over for a day, and an empty
//! queue with it. If the sale is prolonged later, the counter is loaded again, as after a loss of Redis' data; items
//! without an arbiter keep theirs.
//!
//! The tables that strategies have beside the stock are settled too. There the ledger can say at once which is right.
//!
//! A run inspects the open sales first, and then some that are over. It stops at its bound, and the
//! next run continues there, so that every counted item is inspected. A server of Redis that does not answer leaves only
//! its own counters out.

mod walk;

use std::collections::BTreeSet;
use std::io;
use std::sync::PoisonError;

use async_trait::async_trait;
use futures::StreamExt;
use mysql_connection::Database;
use redis::{ErrorKind, RedisError};
use tokio::sync::Mutex;

use extension::job::Job;
use gates::redis_store::{Buckets, Counter, CounterError, Counters};
use ledger::rows::redis_lists::{CountedItem, CounterLayout, Sales};
use ledger::rows::tables::TABLES;
use shop_domain::{ArbiterMode, ItemId};
use shop_metrics::Metrics;
use walk::{CounterState, Inspection, Walk};

/// Counters that are read at once.
const INSPECTIONS_AT_ONCE: usize = 16;

/// The number of items that one run inspects.
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

/// The job that compares counters with the ledger.
pub struct Reconcile {
    pool: Database,
    counters: Counters,
    buckets: Buckets,
    metrics: Metrics,
    bounds: Bounds,
    /// Open sales first.
    walks: Mutex<[Walk; 4]>,
    /// The last item of each strategy's table that was looked at; 0 before the first.
    settled_up_to: Mutex<[i64; TABLES.len()]>,
}

/// The result of a run.
#[derive(Default)]
struct RunCounts {
    compared: usize,
    repaired: usize,
    failed: usize,
    first_failure: String,
}

impl RunCounts {
    fn fail(&mut self, item: ItemId, error: &CounterError) {
        self.failed += 1;
        if self.first_failure.is_empty() {
            self.first_failure = format!("item {item}: {error}");
        }
    }
}

/// Groups of Redis' servers of which one did not answer in this run: no further counter on a whole group is waited for.
#[derive(Default)]
struct AwayServers(std::sync::Mutex<BTreeSet<BTreeSet<String>>>);

impl AwayServers {
    fn has_any(&self, servers: &BTreeSet<String>) -> bool {
        let away = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        away.iter().any(|group| group.is_subset(servers))
    }

    /// Learns that a server of a counter did not answer.
    fn learn(&self, servers: BTreeSet<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(servers);
    }
}

impl Reconcile {
    /// Compares `counters`, and the buckets beside them, with the ledger.
    pub fn new(pool: Database, counters: Counters, metrics: Metrics) -> Self {
        let buckets = Buckets::beside(&counters);
        let walks = Mutex::new([
            Walk::new(CounterLayout::Whole, Sales::Open),
            Walk::new(CounterLayout::Split, Sales::Open),
            Walk::new(CounterLayout::Whole, Sales::Ended),
            Walk::new(CounterLayout::Split, Sales::Ended),
        ]);
        let bounds = Bounds::default();
        let settled_up_to = Mutex::default();
        Self { pool, counters, buckets, metrics, bounds, walks, settled_up_to }
    }

    /// Sets the number of items that one run inspects.
    pub fn with_bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    async fn compare(&self) -> Result<String, String> {
        let mut walks = self.walks.lock().await;
        let mut done = RunCounts::default();
        let away = AwayServers::default();
        for walk in &mut *walks {
            let pages = match walk.sales {
                Sales::Open => self.bounds.open_pages,
                Sales::Ended => self.bounds.ended_pages,
            };
            for _ in 0..pages {
                if self.compare_page(walk, &away, &mut done).await? {
                    break;
                }
            }
        }
        let drift_units = walks.iter().map(Walk::drift_units).sum();
        self.metrics.counters_drift.set(drift_units);
        let RunCounts { compared, repaired, failed, first_failure } = done;
        let summary =
            format!("{compared} counters compared, {drift_units} units apart, {repaired} repaired");
        match failed {
            0 => Ok(summary),
            _ => Err(format!("{summary}, {failed} could not be compared: {first_failure}")),
        }
    }

    /// Compares the walk's next page, and returns whether it was the last one.
    async fn compare_page(
        &self,
        walk: &mut Walk,
        away: &AwayServers,
        done: &mut RunCounts,
    ) -> Result<bool, String> {
        let page = walk.next_page(&self.pool, self.bounds.page).await;
        let mut page = page.map_err(|error| error.to_string())?;
        page.counted.retain(|counted| counted.arbiter.is_some());
        let layout = walk.layout;
        let mut inspections = futures::stream::iter(page.counted)
            .map(|counted| async move { (counted.item, self.ask(layout, counted, away).await) })
            .buffered(INSPECTIONS_AT_ONCE);
        while let Some((item, inspection)) = inspections.next().await {
            let repaired = match inspection {
                Ok(None) => continue,
                Ok(Some(inspection)) => {
                    done.compared += 1;
                    let drift = inspection.drift();
                    if drift == 0 {
                        continue;
                    }
                    let agreed = page.before.get(&item.get()) == Some(&inspection);
                    let repaired = if agreed && inspection.arbiter == Some(ArbiterMode::On) {
                        self.repair(item, &inspection).await
                    } else {
                        Ok(false)
                    };
                    if matches!(repaired, Ok(true)) {
                        let table = layout.table();
                        tracing::info!(%item, table, drift, "counter set to the ledger's figure");
                    }
                    walk.remember(item, inspection);
                    repaired
                }
                Err(error) => Err(error),
            };
            match repaired {
                Ok(repaired) => done.repaired += usize::from(repaired),
                Err(error) => {
                    // Its last difference is not forgotten.
                    if let Some(before) = page.before.remove(&item.get()) {
                        walk.remember(item, before);
                    }
                    done.fail(item, &error);
                }
            }
        }
        Ok(page.is_last)
    }

    /// Settles the next page of items of each table that a strategy has. Returns what it did, in words.
    async fn settle_tables(&self) -> Result<String, String> {
        let mut done = String::new();
        let mut settled_up_to = self.settled_up_to.lock().await;
        for (table, after) in TABLES.iter().zip(&mut *settled_up_to) {
            let settled = table.settle(&self.pool, after, self.bounds.page).await;
            let items = settled.map_err(|error| error.to_string())?;
            if items > 0 {
                done += &format!(", {} of {items} items settled", table.name());
            }
        }
        Ok(done)
    }

    /// Inspects a counter, unless its server is away.
    async fn ask(
        &self,
        layout: CounterLayout,
        counted: CountedItem,
        away: &AwayServers,
    ) -> Result<Option<Inspection>, CounterError> {
        let item = counted.item;
        let servers = match layout {
            CounterLayout::Whole => self.counters.servers(item),
            CounterLayout::Split => self.buckets.counters.servers(item),
        };
        if away.has_any(&servers) {
            return Err(RedisError::from(io::Error::from(io::ErrorKind::NotConnected)).into());
        }
        let inspected = self.inspect(layout, counted).await;
        match &inspected {
            Err(error) if is_its_own(error) => {
                tracing::warn!(%error, %item, "counter not compared");
            }
            Err(_) => away.learn(servers),
            Ok(_) => {}
        }
        inspected
    }

    async fn inspect(
        &self,
        layout: CounterLayout,
        counted: CountedItem,
    ) -> Result<Option<Inspection>, CounterError> {
        let CountedItem { item, available, version, arbiter, epoch, is_long_over } = counted;
        if is_long_over && arbiter == Some(ArbiterMode::On) {
            match layout {
                CounterLayout::Whole => self.counters.forget(item).await?,
                CounterLayout::Split => self.buckets.counters.forget(item).await?,
            }
            return Ok(None);
        }
        let seen = match layout {
            CounterLayout::Whole => {
                self.counters.peek_with_queue(item).await?.map(CounterState::Whole)
            }
            // Parts of an older load are skipped: they are loaded again before their next use.
            CounterLayout::Split => {
                let parts = self.buckets.peek(item).await?;
                let is_current = |part: &Counter| part.epoch == epoch;
                parts.filter(|parts| parts.iter().all(is_current)).map(CounterState::Split)
            }
        };
        Ok(seen.map(|seen| Inspection { seen, available, version, arbiter }))
    }

    async fn repair(&self, item: ItemId, inspection: &Inspection) -> Result<bool, CounterError> {
        match &inspection.seen {
            CounterState::Whole(seen) => {
                self.counters.repair(item, *seen, inspection.available, inspection.version).await
            }
            CounterState::Split(parts) => {
                self.buckets.repair(item, parts, inspection.available).await
            }
        }
    }
}

/// Returns whether an error belongs to one counter while its server answers.
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
    async fn run(&self) -> Result<String, String> {
        let compared = self.compare().await;
        let settled = self.settle_tables().await?;
        Ok(compared? + &settled)
    }
}
