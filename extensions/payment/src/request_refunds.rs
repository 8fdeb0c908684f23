//! The job that tells the payment provider of refunds.

use async_trait::async_trait;
use prometheus_client::metrics::gauge::Gauge;

use crate::payments::Payments;
use crate::refunds::RefundRun;
use extension::job::Job;

/// The job that asks for refunds.
pub struct RequestRefunds {
    pub payments: Payments,
    /// Payments that have to go back, and are not known to have done so.
    pub open: Gauge,
}

#[async_trait]
impl Job for RequestRefunds {
    async fn run(&self) -> Result<String, String> {
        let asked = self.payments.request_refunds(&self.open).await;
        let RefundRun { accepted, failed } = asked.map_err(|error| error.to_string())?;
        match failed {
            0 => Ok(format!("{accepted} refunds asked for")),
            _ => Err(format!("the provider did not take {failed} refunds; {accepted} asked for")),
        }
    }
}
