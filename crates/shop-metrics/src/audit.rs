//! The metrics of the job that audits the recent sales.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::InvariantLabel;

/// What the last audit found. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct AuditMetrics {
    broken: Family<InvariantLabel, Gauge>,
    /// Units that were sold beyond the stock, summed over the items.
    pub oversold: Gauge,
    /// The time at which the last audit of all recent sales ended, in seconds since 1970.
    pub ended_at: Gauge,
    /// Sales that are open and have units left.
    pub sales_with_stock: Gauge,
}

impl AuditMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let broken = "Recent sales that break an invariant, by the last audit";
        r.register("audit_broken_items", broken, self.broken.clone());
        let oversold = "Units sold beyond the stock, by the last audit";
        r.register("audit_oversold_units", oversold, self.oversold.clone());
        let ended = "Time of the end of the last audit of all recent sales, since 1970";
        r.register_with_unit(
            "audit_ended",
            ended,
            Unit::Other("timestamp_seconds".to_owned()),
            self.ended_at.clone(),
        );
        let stock = "Open sales with units left, at the last audit";
        r.register("sales_with_stock", stock, self.sales_with_stock.clone());
    }

    /// Sets how many recent sales break an invariant.
    pub fn found(&self, invariant: &'static str, broken: i64) {
        self.broken.get_or_create(&InvariantLabel { invariant }).set(broken);
    }
}
