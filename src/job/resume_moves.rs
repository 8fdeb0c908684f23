//! The job that ends moves of items between ledgers whose mover has died, and deletes rows that were kept
//! long enough.
//!
//! It runs in every instance; the mover's lock leaves each move to one of them, and to the operator's command
//! before all.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Job;
use ledger::item_move::{Mover, ResumeSummary, Watch};
use shop_metrics::Metrics;

/// How often the rows that moved items have left behind are looked through.
const KEPT_ROWS_EVERY: Duration = Duration::from_secs(60);

/// The job that goes on with moves.
pub struct ResumeMoves {
    mover: Mover,
    watch: Mutex<Watch>,
    metrics: Metrics,
    /// How long the rows that an item leaves behind are kept.
    kept_hours: u32,
    /// When such rows were last looked through.
    looked_at: Mutex<Option<Instant>>,
    /// A move that is broken off by a stop is another instance's.
    stop: CancellationToken,
}

impl ResumeMoves {
    /// Goes on with moves by `mover` until `stop` fires. What moved items
    /// have left behind is kept for `kept_hours`.
    #[must_use]
    pub fn new(mover: Mover, metrics: Metrics, kept_hours: u32, stop: CancellationToken) -> Self {
        let (watch, looked_at) = (Mutex::default(), Mutex::default());
        Self { mover, watch, metrics, kept_hours, looked_at, stop }
    }

    /// Deletes rows that were kept long enough, once in a while.
    async fn forget_kept_rows(&self) -> Result<(), String> {
        let mut looked_at = self.looked_at.lock().await;
        if looked_at.is_some_and(|at| at.elapsed() < KEPT_ROWS_EVERY) {
            return Ok(());
        }
        *looked_at = Some(Instant::now());
        let forgotten = self.mover.forget_kept_rows(self.kept_hours).await;
        forgotten.map_err(|error| format!("kept rows not deleted: {error}"))
    }
}

#[async_trait]
impl Job for ResumeMoves {
    async fn run(&self) -> Result<String, String> {
        let mut watch = self.watch.lock().await;
        let look = self.stop.run_until_cancelled(self.mover.resume_undriven(&mut watch)).await;
        let Some(resumed) = look else { return Ok("stopped".to_owned()) };
        let resumed = resumed.map_err(|error| error.to_string())?;
        let ResumeSummary { under_way, ended, given_up, failed } = resumed;
        self.metrics.moves.resumed.inc_by(u64::try_from(ended + given_up).unwrap_or_default());
        match failed.first() {
            None => {
                self.forget_kept_rows().await?;
                Ok(format!(
                    "{under_way} moves under way; {ended} ended here, {given_up} given up here"
                ))
            }
            Some((item, error)) => {
                Err(format!("{} moves not ended, that of item {item}: {error}", failed.len()))
            }
        }
    }
}
