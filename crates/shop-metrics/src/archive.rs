//! The metrics of the job that archives the orders of ended sales.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// What this instance has archived. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct ArchiveMetrics {
    /// Orders that have left the ledger for a file.
    pub orders: Counter,
    /// Items that could not be archived, although nothing of them was open, counted in each run.
    pub failures: Counter,
    /// The time at which the last run without such an item ended, in seconds since 1970.
    pub ended_at: Gauge,
}

impl ArchiveMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        let orders = "Orders that have left the ledger for the archive";
        r.register("archive_orders", orders, self.orders.clone());
        let failures = "Items that could not be archived, counted in each run";
        r.register("archive_failures", failures, self.failures.clone());
        let ended = "Time of the end of the last run of the archive without a failure, since 1970";
        let seconds = Unit::Other("timestamp_seconds".to_owned());
        r.register_with_unit("archive_ended", ended, seconds, self.ended_at.clone());
    }
}
