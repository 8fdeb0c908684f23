//! The job that audits the recent sales again and again, so that an alert tells of a broken invariant
//! before anybody asks.
//!
//! Each instance audits by itself: an audit reads one snapshot of the ledger. The counters in Redis
//! are left out, since they follow the ledger with a delay while buyers buy; `reconcile` compares
//! them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ledger::Database;
use time::OffsetDateTime;

use crate::audit::audit;
use extension::job::Job;
use ledger::breaker::Breaker;
use ledger::rows::audit::recent_sales;
use ledger::rows::{ask, within};
use shop_domain::ItemId;
use shop_metrics::Metrics;

/// How long one run may audit; the next run goes on behind it.
const RUN_MAX: Duration = Duration::from_secs(2);
/// How long the audit of one item may take.
const ITEM_MAX: Duration = Duration::from_secs(60);

/// The invariants that the metrics report: all that the audit judges without Redis.
const REPORTED: [&str; 10] = ["I1", "I2", "I3", "I4", "I5", "I6", "I13", "I14", "I20", "I21"];

/// The job that audits recent sales.
pub struct Audit {
    /// The ledger.
    pub pool: Database,
    /// The ledger's breaker.
    pub breaker: Breaker,
    /// The figures for alerts.
    pub metrics: Metrics,
    /// The last item that was audited, and the results.
    pub progress: Progress,
}

/// How far the audit has come, and what it found.
#[derive(Default)]
pub struct Progress(Mutex<AuditResults>);

#[derive(Default)]
struct AuditResults {
    last: Option<ItemId>,
    items: BTreeMap<ItemId, ItemResult>,
}

/// What the audit of one item found.
#[derive(Clone, Default)]
struct ItemResult {
    oversold: i64,
    broken: Vec<&'static str>,
}

#[async_trait]
impl Job for Audit {
    async fn run(&self) -> Result<String, String> {
        let sales = ask(&self.breaker, recent_sales(&self.pool)).await;
        let sales = sales.map_err(|error| error.to_string())?;
        let with_stock = sales.iter().filter(|sale| sale.is_open_with_stock).count();
        self.metrics.audit.sales_with_stock.set(i64::try_from(with_stock).unwrap_or(i64::MAX));
        let ids: Vec<ItemId> = sales.iter().map(|sale| sale.id).collect();
        let after = self.forget_others(&ids);
        let behind = ids.iter().filter(|id| after.is_none_or(|after| **id > after));
        let until = Instant::now() + RUN_MAX;
        let mut audited = 0;
        for id in behind {
            if audited > 0 && Instant::now() >= until {
                return Ok(format!("{audited} of {} sales audited", ids.len()));
            }
            self.audit_item(*id).await?;
            audited += 1;
        }
        self.found().last = None;
        self.report();
        self.metrics.audit.ended_at.set(OffsetDateTime::now_utc().unix_timestamp());
        Ok(format!("{audited} sales audited"))
    }
}

impl Audit {
    async fn audit_item(&self, id: ItemId) -> Result<(), String> {
        let audited = within(ITEM_MAX, Box::pin(audit(&self.pool, None, id)));
        let audited = ask(&self.breaker, audited).await.map_err(|error| error.to_string())?;
        let mut found = self.found();
        found.last = Some(id);
        let Some(report) = audited else { return Ok(()) };
        let broken = report.findings.iter().filter(|finding| finding.holds == Some(false));
        let broken = broken.map(|finding| finding.invariant);
        let broken: Vec<&str> = broken.filter(|invariant| REPORTED.contains(invariant)).collect();
        let result = ItemResult { oversold: report.units_oversold(), broken };
        let is_news = found.items.get(&id).is_none_or(|before| before.broken != result.broken);
        if is_news && !result.broken.is_empty() {
            let broken = result.broken.join(", ");
            tracing::error!(item = %id, broken, "audit found a broken invariant: see `seckill audit`");
        }
        found.items.insert(id, result);
        drop(found);
        // At once, not at the end of the pass.
        self.report();
        Ok(())
    }

    /// Removes the results of other items, and returns the last item that was audited in this pass.
    fn forget_others(&self, ids: &[ItemId]) -> Option<ItemId> {
        let mut found = self.found();
        found.items.retain(|id, _| ids.contains(id));
        found.last
    }

    /// Writes the results of all items to the metrics.
    fn report(&self) {
        let found = self.found();
        for invariant in REPORTED {
            let broken = found.items.values().filter(|item| item.broken.contains(&invariant));
            self.metrics.audit.found(invariant, i64::try_from(broken.count()).unwrap_or(i64::MAX));
        }
        self.metrics.audit.oversold.set(found.items.values().map(|item| item.oversold).sum());
    }

    fn found(&self) -> std::sync::MutexGuard<'_, AuditResults> {
        self.progress.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
