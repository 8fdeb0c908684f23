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
    // A server without replication is asked for it once.
    let mut replicates = true;
    loop {
        // Before the questions, which need connections too.
        figures.connections_busy.set(pool.connections_busy().into());
        figures.away.set(i64::from(!is_writable(&pool).await.unwrap_or(false)));
        if replicates {
            replicates = look_at_replication(&pool, &writer, &metrics).await;
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

/// Looks at the replication, and returns whether there may be any.
async fn look_at_replication(pool: &Database, writer: &Writer, metrics: &Metrics) -> bool {
    let found = replication::read_from(pool).await;
    if matches!(found, Ok(Replication::Vitess { .. })) {
        // No connection ends when Vitess splits a shard.
        let looked = answered(async { writer.look_at_shards(&mut *pool.acquire().await?).await });
        if let Err(error) = looked.await {
            tracing::debug!(%error, "shards not read");
        }
    }
    match found {
        Ok(Replication::None) => return false,
        Ok(replication) => {
            metrics.ledger.replication_fault.set(replication.fault().is_some().into());
            if let Replication::SemiSynchronous { unacknowledged, .. } = replication {
                let commits = i64::try_from(unacknowledged).unwrap_or(i64::MAX);
                metrics.ledger.commits_unacknowledged.set(commits);
            }
        }
        Err(error) => tracing::debug!(%error, "state of the replication not read"),
    }
    true
}
