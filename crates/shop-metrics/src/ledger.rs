//! The metrics of the ledger's servers: the writer among them, and its replication.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

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
    /// 1 while several hosts say that they take writes, and their engine does not allow that.
    pub writers_in_conflict: Gauge,
    /// Seconds by which the slowest replica among the hosts is behind the writer.
    pub replica_lag: Gauge,
    /// Replicas among the hosts that apply nothing.
    pub replicas_stopped: Gauge,
    /// 1 while the ledger does not answer, or takes no writes.
    pub away: Gauge,
    /// Connections for single orders and reads that are in use.
    pub connections_busy: Gauge,
    /// The most connections for single orders and reads.
    pub connections_max: Gauge,
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
        let conflict = "1 while several hosts take writes, and their engine does not allow that";
        r.register("ledger_writers_in_conflict", conflict, self.writers_in_conflict.clone());
        let lag = "Time by which the slowest replica among the hosts is behind the writer";
        r.register_with_unit("ledger_replica_lag", lag, Unit::Seconds, self.replica_lag.clone());
        let stopped = "Replicas among the hosts that apply nothing";
        r.register("ledger_replicas_stopped", stopped, self.replicas_stopped.clone());
        let away = "1 while the ledger does not answer, or takes no writes";
        r.register("ledger_away", away, self.away.clone());
        let busy = "Connections for single orders and reads that are in use";
        r.register("ledger_connections_busy", busy, self.connections_busy.clone());
        let most = "The most connections for single orders and reads";
        r.register("ledger_connections_max", most, self.connections_max.clone());
    }
}
