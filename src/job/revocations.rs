//! The job that reads the list of signed-out tokens again.
//!
//! This regular read also probes a lost ledger when no request does: changes are refused until a
//! probe is answered.

use std::time::Duration;

use async_trait::async_trait;

use crate::account::Revocations;
use extension::job::Job;
use ledger::breaker::Breaker;
use ledger::rows::ask;

/// The longest pause before the next try while the list was never read: until then every token is
/// refused.
const FIRST_READ_PAUSE: Duration = Duration::from_millis(500);

/// The job that refreshes the list of signed-out tokens.
pub struct RefreshRevocations {
    /// The list.
    pub revocations: Revocations,
    /// The ledger's breaker.
    pub breaker: Breaker,
}

#[async_trait]
impl Job for RefreshRevocations {
    fn pause_max(&self) -> Duration {
        if self.revocations.was_read() { Duration::MAX } else { FIRST_READ_PAUSE }
    }

    async fn run(&self) -> Result<String, String> {
        let count = ask(&self.breaker, self.revocations.refresh()).await;
        let count = count.map_err(|error| error.to_string())?;
        Ok(format!("{count} tokens are signed out"))
    }
}
