//! The metrics of the ledger's servers: the writer among them, and its replication.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The metrics of the ledger's servers. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct LedgerMetrics {
    /// The place of the writer in `DATABASE_URL`, from 1; 0 with one host or before it is found.
    pub writer: Gauge,
    /// Hosts that say that they take writes; 0 with one host.
    pub writers: Gauge,
    /// How often the writer became another host.
    pub writer_changes: Counter,
    /// 1 while the replication that was set up does not protect commits.
    pub replication_fault: Gauge,
    /// Commits that no replica has acknowledged, since the start of the writer.
    pub commits_unacknowledged: Gauge,
}

impl LedgerMetrics {
    /// Adds them to a registry.
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("ledger_writer", "Place of the writer in DATABASE_URL", self.writer.clone());
        let writers = "Hosts of DATABASE_URL that say that they take writes";
        r.register("ledger_writers", writers, self.writers.clone());
        let changes = "Changes of the writer to another host of DATABASE_URL";
        r.register("ledger_writer_changes", changes, self.writer_changes.clone());
        let fault = "1 while the replication of the ledger does not protect commits";
        r.register("ledger_replication_fault", fault, self.replication_fault.clone());
        let unacknowledged = "Commits that no semi-synchronous replica has acknowledged";
        let commits = self.commits_unacknowledged.clone();
        r.register("ledger_commits_unacknowledged", unacknowledged, commits);
    }
}
