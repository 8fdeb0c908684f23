//! The job that tells the payment provider of refunds.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::MySqlPool;

use super::Job;
use crate::metrics::Metrics;
use crate::payment::Payments;

/// The pause between two runs.
const PERIOD: Duration = Duration::from_secs(1);

/// The job that asks for refunds.
pub struct RequestRefunds {
    /// The payments.
    pub payments: Payments,
    /// The ledger.
    pub pool: MySqlPool,
    /// Its figures.
    pub metrics: Metrics,
}

#[async_trait]
impl Job for RequestRefunds {
    fn name(&self) -> &'static str {
        "refunds"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    async fn run(&self) -> Result<String, String> {
        let asked = self.payments.request_refunds(&self.pool, &self.metrics).await;
        let (accepted, failed) = asked.map_err(|error| error.to_string())?;
        match failed {
            0 => Ok(format!("{accepted} refunds asked for")),
            _ => Err(format!("the provider did not take {failed} refunds; {accepted} asked for")),
        }
    }
}
