//! The metrics of the job that audits the recent sales.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use super::labels::InvariantLabel;

crate::metrics! {
    /// What the last audit found. Clones share the values.
    pub struct AuditMetrics {
        broken: Family<InvariantLabel, Gauge>, "audit_broken_items",
            "Recent sales that break an invariant, by the last audit";
        /// Units that were sold beyond the stock, summed over the items.
        pub oversold: Gauge,
            "audit_oversold_units", "Units sold beyond the stock, by the last audit";
        /// The time at which the last audit of all recent sales ended, in seconds since 1970.
        pub ended_at: Gauge, "audit_ended" in Unit::Other("timestamp_seconds".to_owned()),
            "Time of the end of the last audit of all recent sales, since 1970";
        /// Sales that are open and have units left.
        pub sales_with_stock: Gauge,
            "sales_with_stock", "Open sales with units left, at the last audit";
    }
}

impl AuditMetrics {
    /// Sets how many recent sales break an invariant.
    pub fn found(&self, invariant: &'static str, broken: i64) {
        self.broken.get_or_create(&InvariantLabel { invariant }).set(broken);
    }
}
