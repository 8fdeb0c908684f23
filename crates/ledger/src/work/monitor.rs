//! Looks at the ledger again and again, for the metrics and their alerts: whether it answers and takes
//! writes, how it replicates, and how many connections to it are in use.
//!
//! The breaker is not enough for that: it opens after many failed calls, and a ledger whose items hardly
//! sell gets few.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use mysql_connection::replication::{self, Replication};
use mysql_connection::{Database, Fault, Writer, answered};
use shop_metrics::Metrics;

/// The pause between two checks.
const PERIOD: Duration = Duration::from_secs(2);

/// Keeps the metrics of the ledger up to date until `stop` fires.
pub async fn watch(pool: Database, writer: Writer, metrics: Metrics, stop: CancellationToken) {
    let figures = &metrics.ledger;
    let most = pool.connections_max();
    figures.connections_max.set(most.into());
    // A single server without replication is asked for it once.
    let mut may_replicate = true;
    // Whether commits have waited for another server.
    let mut has_waited = false;
    loop {
        // Before the questions, which need connections too.
        figures.connections_busy.set(pool.connections_busy().into());
        figures.away.set(i64::from(!is_writable(&pool).await.unwrap_or(false)));
        if may_replicate && let Some(found) = look_at_replication(&pool, &writer).await {
            note_replication(&found, &mut has_waited, &metrics);
            may_replicate = has_waited || writer.has_several_hosts() || found != Replication::None;
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Asks whether the ledger takes writes.
pub async fn is_writable(pool: &Database) -> sqlx::Result<bool> {
    // A read-only server refuses this statement although it matches no row. Its variables are not
    // enough: some accounts may write all the same.
    let tried = sqlx::query("DELETE FROM revoked_sessions WHERE FALSE").execute(pool);
    match answered(tried).await {
        Err(error) if Fault::of(&error) == Fault::Connection => Err(error),
        tried => Ok(!tried.is_err_and(|error| Fault::of(&error) == Fault::ReadOnly)),
    }
}

/// Looks at the replication, and at the shards where there are some.
async fn look_at_replication(pool: &Database, writer: &Writer) -> Option<Replication> {
    let found = replication::read_from(pool).await;
    if matches!(found, Ok(Replication::Vitess { .. })) {
        // No connection ends when Vitess splits a shard.
        let looked = answered(async { writer.shards().read(&mut *pool.acquire().await?).await });
        if let Err(error) = looked.await {
            tracing::debug!(%error, "shards not read");
        }
    }
    found.inspect_err(|error| tracing::debug!(%error, "state of the replication not read")).ok()
}

/// Sets the metrics of the replication. Where commits have waited for another server, they should still: a host that took
/// over may wait for none.
fn note_replication(found: &Replication, has_waited: &mut bool, metrics: &Metrics) {
    let waits = !matches!(found, Replication::None | Replication::Asynchronous);
    *has_waited |= waits;
    let is_fault = found.fault().is_some() || (*has_waited && !waits);
    metrics.ledger.replication_fault.set(is_fault.into());
    if let Replication::SemiSynchronous { unacknowledged, .. } = found {
        let commits = i64::try_from(*unacknowledged).unwrap_or(i64::MAX);
        metrics.ledger.commits_unacknowledged.set(commits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_that_wait_no_more_after_a_failover_are_a_fault() {
        let metrics = Metrics::new();
        let mut has_waited = false;
        let mut fault_of = |found: Replication| {
            note_replication(&found, &mut has_waited, &metrics);
            metrics.ledger.replication_fault.get()
        };
        assert_eq!(fault_of(Replication::Asynchronous), 0, "nothing else was set up");
        let group = Replication::Group { members: 3, online: 3, applies_first: true };
        assert_eq!(fault_of(group.clone()), 0);
        assert_eq!(fault_of(Replication::Asynchronous), 1);
        assert_eq!(fault_of(Replication::None), 1);
        assert_eq!(fault_of(group), 0);
    }
}
