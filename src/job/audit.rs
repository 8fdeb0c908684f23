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
use ledger::Ledger;
use time::OffsetDateTime;

use crate::audit::audit;
use extension::job::Job;
use ledger::rows::audit::recent_sales;
use ledger::work::{ask, nothing_was_sent};
use mysql_connection::within;
use shop_domain::ItemId;
use shop_domain::audit::Report;
use shop_metrics::Metrics;

/// How long one run begins audits; the next run goes on behind it.
const RUN_MAX: Duration = Duration::from_secs(2);
/// How long the audit of one item may take.
const ITEM_MAX: Duration = Duration::from_secs(60);

/// The invariants that the metrics report: all that the audit judges without Redis.
const REPORTED: [&str; 11] =
    ["I1", "I2", "I3", "I4", "I5", "I6", "I13", "I14", "I20", "I21", "I22"];

/// The job that audits recent sales.
pub struct Audit {
    ledger: Ledger,
    metrics: Metrics,
    found: Mutex<AuditResults>,
}

/// How far the audit has come, and what it found.
#[derive(Default)]
struct AuditResults {
    last: Option<ItemId>,
    /// Why items of this pass could not be audited.
    failures: Vec<String>,
    items: BTreeMap<ItemId, ItemResult>,
}

/// What the audit of one item found.
#[derive(Clone, Default)]
struct ItemResult {
    oversold: i64,
    broken: Vec<&'static str>,
}

impl ItemResult {
    fn of(report: &Report) -> Self {
        let broken = report.findings.iter().filter(|finding| finding.holds == Some(false));
        let broken = broken.map(|finding| finding.invariant);
        let broken = broken.filter(|invariant| REPORTED.contains(invariant)).collect();
        Self { oversold: report.units_oversold(), broken }
    }

    /// The result of an item that has lost its stock row: recent items are never deleted.
    fn without_stock() -> Self {
        Self { oversold: 0, broken: vec!["I1"] }
    }
}

#[async_trait]
impl Job for Audit {
    async fn run(&self) -> Result<String, String> {
        let sales = ask(&self.ledger.breaker, recent_sales(&self.ledger.pool)).await;
        let sales = sales.map_err(|error| error.to_string())?;
        let with_stock = sales.iter().filter(|sale| sale.is_open_with_stock).count();
        self.metrics.audit.sales_with_stock.set(i64::try_from(with_stock).unwrap_or(i64::MAX));
        let ids: Vec<ItemId> = sales.iter().map(|sale| sale.id).collect();
        let after = self.forget_others(&ids);
        let behind = ids.iter().filter(|id| after.is_none_or(|after| **id > after));
        let until = Instant::now() + RUN_MAX;
        let mut looked_at = 0;
        let mut is_end = true;
        for id in behind {
            if looked_at > 0 && Instant::now() >= until {
                is_end = false;
                break;
            }
            self.audit_or_note(*id).await?;
            looked_at += 1;
        }
        self.report();
        let failures = self.failures(is_end);
        let Some(first) = failures.first() else {
            if is_end {
                self.metrics.audit.ended_at.set(OffsetDateTime::now_utc().unix_timestamp());
            }
            return Ok(format!("{looked_at} of {} sales audited", ids.len()));
        };
        Err(format!("{} of {} sales not audited; {first}", failures.len(), ids.len()))
    }
}

impl Audit {
    /// An audit of the `ledger`, whose figures for alerts are in `metrics`.
    pub fn new(ledger: Ledger, metrics: Metrics) -> Self {
        Self { ledger, metrics, found: Mutex::default() }
    }

    /// Audits an item. Its error is noted, and the others go on, unless the ledger is away: then they would fail in the
    /// same way.
    async fn audit_or_note(&self, id: ItemId) -> Result<(), String> {
        let audited = self.audit_item(id).await;
        let mut found = self.found();
        match audited {
            Err(error) if nothing_was_sent(&error) => return Err(error.to_string()),
            Err(error) => found.failures.push(format!("item {id}: {error}")),
            Ok(()) => {}
        }
        found.last = Some(id);
        Ok(())
    }

    async fn audit_item(&self, id: ItemId) -> ledger::Result<()> {
        let audited = within(ITEM_MAX, Box::pin(audit(&self.ledger.pool, None, id)));
        let audited = ask(&self.ledger.breaker, audited).await?;
        let mut found = self.found();
        let result = audited.as_ref().map_or_else(ItemResult::without_stock, ItemResult::of);
        let is_news = found.items.get(&id).is_none_or(|before| before.broken != result.broken);
        if is_news && !result.broken.is_empty() {
            let broken = result.broken.join(", ");
            tracing::error!(item = %id, broken, "audit found a broken invariant: see `seckill audit`");
        }
        found.items.insert(id, result);
        drop(found);
        if is_news {
            // At once, not at the end of the pass.
            self.report();
        }
        Ok(())
    }

    /// Returns the failures of this pass; at its end the next one begins.
    fn failures(&self, is_end: bool) -> Vec<String> {
        let mut found = self.found();
        if is_end {
            found.last = None;
            return std::mem::take(&mut found.failures);
        }
        found.failures.clone()
    }

    /// Removes the results of other items, and returns the last item that was looked at in this pass.
    fn forget_others(&self, ids: &[ItemId]) -> Option<ItemId> {
        let mut found = self.found();
        // Sorted, as the ledger lists them.
        found.items.retain(|id, _| ids.binary_search(id).is_ok());
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
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
