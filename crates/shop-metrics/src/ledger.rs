//! The metrics of the ledger's servers: the writer among them, and its replication.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

crate::metrics! {
    /// The metrics of the ledger's servers. Clones share the counts.
    pub struct LedgerMetrics {
        /// The place of the writer in `DATABASE_URL`, from 1; 0 with one host or before it is found.
        pub writer: Gauge, "ledger_writer", "Place of the writer in DATABASE_URL";
        /// Hosts that say that they take writes; 0 with one host.
        pub writers: Gauge,
            "ledger_writers", "Hosts of DATABASE_URL that say that they take writes";
        /// How often the writer became another host.
        pub writer_changes: Counter,
            "ledger_writer_changes", "Changes of the writer to another host of DATABASE_URL";
        /// 1 while the replication that was set up does not protect commits.
        pub replication_fault: Gauge, "ledger_replication_fault",
            "1 while the replication of the ledger does not protect commits";
        /// Commits that no replica has acknowledged, since the start of the writer.
        pub commits_unacknowledged: Gauge, "ledger_commits_unacknowledged",
            "Commits that no semi-synchronous replica has acknowledged";
        /// 1 while several hosts say that they take writes, and their engine does not allow that.
        pub writers_in_conflict: Gauge, "ledger_writers_in_conflict",
            "1 while several hosts take writes, and their engine does not allow that";
        /// Seconds by which the slowest replica among the hosts is behind the writer.
        pub replica_lag: Gauge, "ledger_replica_lag" in Unit::Seconds,
            "Time by which the slowest replica among the hosts is behind the writer";
        /// Replicas among the hosts that apply nothing.
        pub replicas_stopped: Gauge,
            "ledger_replicas_stopped", "Replicas among the hosts that apply nothing";
        /// 1 while the ledger does not answer, or takes no writes.
        pub away: Gauge, "ledger_away", "1 while the ledger does not answer, or takes no writes";
        /// Connections for single orders and reads that are in use.
        pub connections_busy: Gauge, "ledger_connections_busy",
            "Connections for single orders and reads that are in use";
        /// The most connections for single orders and reads.
        pub connections_max: Gauge, "ledger_connections_max",
            "The most connections for single orders and reads";
    }
}
