//! Time limits: no wait for a statement is endless.
//!
//! A link can die without a notice to either end: a firewall drops its state, a cable is pulled.
//! sqlx then waits for ever, and offers no time-out on its socket. So work on the database is awaited through
//! [`answered`] or [`within`]. When its time is over it is dropped, with an error that counts as a lost connection:
//! after COMMIT was sent the outcome is unknown, before it nothing happened, since the transaction ends with its
//! connection. The connection that it leaves behind is closed by the checks of its pool (`pool.rs`).

use std::io;
use std::time::Duration;

use crate::WorkError;
use crate::error::without_values;

/// How long one statement may take, the wait for a connection and for a row lock included.
pub const ANSWER_MAX: Duration = Duration::from_secs(6);
/// How long the statements of a short transaction may take together, its COMMIT not included.
pub const TRANSACTION_MAX: Duration = Duration::from_secs(10);
/// How long a large read may take, such as an audit.
pub const LONG_READ_MAX: Duration = Duration::from_secs(60);

/// Waits for one statement.
///
/// # Errors
/// The work's; an error of input and output when its time is over.
pub async fn answered<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    within(ANSWER_MAX, work).await
}

/// Waits for work on the database no longer than `limit`.
///
/// # Errors
/// The work's; an error of input and output when its time is over.
pub fn within<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> impl Future<Output = sqlx::Result<T>> {
    within_limit(limit, work)
}

/// Waits like [`within`] for work whose error may be a refusal.
///
/// # Errors
/// The work's; an error of input and output when its time is over.
pub async fn within_limit<T, E: WorkError>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let ended = tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let sentence = format!("the database did not answer within {} s", limit.as_secs());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, sentence)).into())
    });
    ended.map_err(|error| error.map_database(without_values))
}

/// Makes a SELECT that its server ends by itself after [`LONG_READ_MAX`]: nobody waits for its answer any more.
///
/// MariaDB reads the first of the two limits, MySQL the second one; each takes the other's for a comment.
pub fn ended_by_server(select: &str) -> String {
    let of_mysql = format!("SELECT /*+ MAX_EXECUTION_TIME({}) */", LONG_READ_MAX.as_millis());
    let select = select.replacen("SELECT", &of_mysql, 1);
    format!("/*M! SET STATEMENT max_statement_time = {} FOR */ {select}", LONG_READ_MAX.as_secs())
}

/// Returns whether an error is a missing answer.
pub fn is_silence(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut)
}
