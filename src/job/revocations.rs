//! Reads the list of signed-out tokens again.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::Job;
use crate::session::Revocations;

/// The refresh.
pub struct RefreshRevocations {
    /// The list.
    pub revocations: Revocations,
    /// The pause between two runs.
    pub period: Duration,
}

impl Job for RefreshRevocations {
    fn name(&self) -> &'static str {
        "revocations"
    }

    fn period(&self) -> Duration {
        self.period
    }

    fn run(&self) -> BoxFuture<'_, Result<String, String>> {
        async {
            let count = self.revocations.refresh().await.map_err(|error| error.to_string())?;
            Ok(format!("{count} tokens are signed out"))
        }
        .boxed()
    }
}
