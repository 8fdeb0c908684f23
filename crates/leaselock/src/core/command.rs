//! The counter, which has no hold. Its commands have a time-out, as those of the latch have, and errors that say
//! whether a change was made.

use async_trait::async_trait;

use super::store::BackendError;
use crate::LockName;

/// A shared counter: a number that many change without losing an update. Each name has a whole number, which is zero
/// before it is first changed. Every change is atomic.
#[async_trait]
pub trait SharedCounter: Send + Sync + 'static {
    /// Adds `delta`, which may be negative, and returns the sum. A sum that does not fit into 64 bits
    /// is [`CommandError::Refused`].
    async fn add(&self, name: &LockName, delta: i64) -> Result<i64, CommandError>;

    /// The present number.
    async fn get(&self, name: &LockName) -> Result<i64, CommandError>;

    /// Writes `new` if the number is `expected`; otherwise changes nothing and returns `false`.
    async fn compare_and_set(
        &self,
        name: &LockName,
        expected: i64,
        new: i64,
    ) -> Result<bool, CommandError>;
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The backend did not answer. The change may or may not have been made, and sending the command
    /// again could make it twice.
    #[error("the lock backend did not answer, so the outcome is unknown: {0}")]
    NoAnswer(#[source] BackendError),
    /// The backend refused, and nothing has changed.
    #[error("the lock backend refused: {0}")]
    Refused(#[source] BackendError),
}

/// Waits for an answer, for as long as any command may take.
#[cfg(any(feature = "redis", feature = "zookeeper"))]
pub(crate) async fn bounded<T>(
    answer: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    let answered = super::store::ask(crate::LEASE_MAX, async { Ok(answer.await) }).await;
    answered.map_err(CommandError::NoAnswer)?
}
