//! Single commands of the primitives without a hold: with a time-out, and with errors that say whether
//! a change was made.

#[cfg(any(feature = "redis", feature = "zookeeper"))]
use std::time::Duration;

#[cfg(any(feature = "redis", feature = "zookeeper"))]
use tokio::time::timeout;

use super::store::BackendError;

/// The longest that one command may take.
#[cfg(any(feature = "redis", feature = "zookeeper"))]
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

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

/// Waits for an answer, for [`COMMAND_TIMEOUT`] at most.
#[cfg(any(feature = "redis", feature = "zookeeper"))]
pub(crate) async fn bounded<T>(
    answer: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    timeout(COMMAND_TIMEOUT, answer).await.unwrap_or_else(|_| {
        Err(CommandError::NoAnswer(BackendError::new(format!(
            "no answer within {COMMAND_TIMEOUT:?}"
        ))))
    })
}
