//! The job that ends moves of items between ledgers whose mover has died.
//!
//! It runs in every instance; the mover's lock leaves each move to one of them, and to the operator's command
//! before all.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::Job;
use crate::metrics::Metrics;
use crate::shard::{Mover, Resumed, Watch};

/// The job that goes on with moves.
pub struct ResumeMoves {
    mover: Mover,
    watch: Mutex<Watch>,
    metrics: Metrics,
    period: Duration,
    /// A move that is broken off by a stop is another instance's.
    stop: CancellationToken,
}

impl ResumeMoves {
    /// Goes on with moves by `mover`, and looks for them every `period` until `stop` fires.
    #[must_use]
    pub fn new(mover: Mover, metrics: Metrics, period: Duration, stop: CancellationToken) -> Self {
        Self { mover, watch: Mutex::default(), metrics, period, stop }
    }
}

#[async_trait]
impl Job for ResumeMoves {
    fn name(&self) -> &'static str {
        "moves"
    }

    fn period(&self) -> Duration {
        self.period
    }

    async fn run(&self) -> Result<String, String> {
        let mut watch = self.watch.lock().await;
        let look = self.stop.run_until_cancelled(self.mover.resume_undriven(&mut watch)).await;
        let Some(resumed) = look else { return Ok("stopped".to_owned()) };
        let resumed = resumed.map_err(|error| error.to_string())?;
        let Resumed { under_way, ended, given_up, failed } = resumed;
        self.metrics.moves.resumed.inc_by(u64::try_from(ended + given_up).unwrap_or_default());
        match failed.first() {
            None => Ok(format!(
                "{under_way} moves under way; {ended} ended here, {given_up} given up here"
            )),
            Some((item, error)) => {
                Err(format!("{} moves not ended, that of item {item}: {error}", failed.len()))
            }
        }
    }
}
