//! Single commands of the primitives that hold nothing: bounded, with errors that do not guess.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

/// The longest that one command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The backend did not answer: whether a change was made is unknown, and sending it again could
    /// make it twice.
    #[error("the lock backend did not answer, so the outcome is unknown: {0}")]
    Unanswered(String),
    /// The backend refused, and nothing was changed.
    #[error("the lock backend refused: {0}")]
    Refused(String),
}

/// Waits for an answer, but not longer than a command may take.
pub(crate) async fn bounded<T>(
    answer: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    timeout(COMMAND_TIMEOUT, answer).await.unwrap_or_else(|_| {
        Err(CommandError::Unanswered(format!("no answer within {COMMAND_TIMEOUT:?}")))
    })
}
