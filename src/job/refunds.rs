//! The job that tells the payment provider of refunds.

use async_trait::async_trait;

use super::Job;
use crate::payment::{Payments, RefundRun};
use shop_domain::ShardId;
use shop_metrics::Metrics;

/// The job that asks for refunds.
pub struct RequestRefunds {
    pub payments: Payments,
    /// The ledger.
    pub shard: ShardId,
    /// Its figures.
    pub metrics: Metrics,
}

#[async_trait]
impl Job for RequestRefunds {
    async fn run(&self) -> Result<String, String> {
        let asked = self.payments.request_refunds(self.shard, &self.metrics).await;
        let RefundRun { accepted, failed, later } = asked.map_err(|error| error.to_string())?;
        let later = match later {
            0 => String::new(),
            later => format!("; {later} wait for the move of their item"),
        };
        match failed {
            0 => Ok(format!("{accepted} refunds asked for{later}")),
            _ => Err(format!(
                "the provider did not take {failed} refunds; {accepted} asked for{later}"
            )),
        }
    }
}
