//! Reads the list of signed-out tokens again.
//!
//! It is also the read that finds out whether a ledger that was away answers again, should nobody
//! else read anything: changes wait for that.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::Job;
use crate::account::Revocations;
use crate::store::breaker::Breaker;
use crate::store::mysql::ask;

/// The longest pause before the next try as long as the list was never read: until then no token is
/// taken.
const FIRST_READ_PAUSE: Duration = Duration::from_millis(500);

/// The refresh.
pub struct RefreshRevocations {
    /// The list.
    pub revocations: Revocations,
    /// The ledger's.
    pub breaker: Breaker,
    /// The pause between two runs.
    pub period: Duration,
}

impl Job for RefreshRevocations {
    fn name(&self) -> &'static str {
        "revocations"
    }

    fn period(&self) -> Duration {
        match self.revocations.was_read() {
            true => self.period,
            false => self.period.min(FIRST_READ_PAUSE),
        }
    }

    fn run(&self) -> BoxFuture<'_, Result<String, String>> {
        async {
            let count = ask(&self.breaker, self.revocations.refresh()).await;
            let count = count.map_err(|error| error.to_string())?;
            Ok(format!("{count} tokens are signed out"))
        }
        .boxed()
    }
}
