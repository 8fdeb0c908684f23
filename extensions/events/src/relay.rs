//! Moves events from the outbox into the log, which numbers them.

use std::time::Duration;

use ledger::Database;
use ledger::rows::event_log;
use tokio_util::sync::CancellationToken;

/// Moves rows from the outbox into the log until `stop` fires.
pub async fn run_relay(pool: Database, poll: Duration, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(poll)).await.is_some() {
        loop {
            match event_log::move_from_outbox(&pool).await {
                Ok(true) if !stop.is_cancelled() => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "events not moved into the log; the next run tries again");
                    break;
                }
            }
        }
    }
}
