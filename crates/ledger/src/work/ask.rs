//! Runs statements behind the ledger's breaker: refused at once while the breaker is open.

use super::breaker::{Breaker, BreakerPermit};
use crate::sql::limits::{LONG_READ_MAX, TRANSACTION_MAX, within_limit};
use crate::sql::{Fault, WorkError, all_in_use, is_unconfirmed, within};
use shop_domain::LedgerError;

/// Runs a read of the ledger. It may be the probe of an open breaker, so `question` must not change
/// anything.
///
/// # Errors
/// The database's; [`sqlx::Error::PoolTimedOut`] when it was refused, as when no connection can be
/// had.
pub async fn ask<T>(
    breaker: &Breaker,
    question: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let call = breaker.enter().ok_or(sqlx::Error::PoolTimedOut)?;
    report(call, within(LONG_READ_MAX, question).await).await
}

/// Runs a change of the ledger. It is never the probe of an open breaker: a payment must not be
/// used to find out whether the ledger answers again. A refusal is an answer of the ledger.
///
/// # Errors
/// Those of `work`; [`sqlx::Error::PoolTimedOut`] when it was refused, as when no connection can be had.
pub async fn change<T, E: WorkError>(
    breaker: &Breaker,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let call = breaker.enter_closed().ok_or(sqlx::Error::PoolTimedOut)?;
    report(call, within_limit(TRANSACTION_MAX, work).await).await
}

/// Returns whether an error means that nothing was sent: no connection was available.
#[must_use]
pub fn nothing_was_sent(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
        || Fault::of(error) == Fault::AllInUse
}

/// Logs a failed read, once, and converts the error for the caller.
#[must_use]
pub fn failed_read(error: &sqlx::Error) -> LedgerError {
    tracing::warn!(%error, "ledger not read");
    match Fault::of(error) {
        Fault::AllInUse => LedgerError::Overloaded,
        _ => LedgerError::Unavailable,
    }
}

/// Logs a failed change, once, and converts the error: the change may have been made, unless
/// nothing was sent, or the server has rolled it back, refuses writes or cannot write.
#[must_use]
pub fn failed_change(error: &sqlx::Error) -> LedgerError {
    tracing::warn!(%error, "ledger not changed");
    match Fault::of(error) {
        _ if is_unconfirmed(error) => LedgerError::OutcomeUnknown,
        Fault::AllInUse => LedgerError::Overloaded,
        Fault::ReadOnly | Fault::Full => LedgerError::ReadOnly,
        Fault::DoesNotFit => LedgerError::DoesNotFit,
        // Rolled back, such as after a wait for a row.
        Fault::Transient => LedgerError::Contended,
        _ if nothing_was_sent(error) => LedgerError::Unavailable,
        _ => LedgerError::OutcomeUnknown,
    }
}

async fn report<T, E: WorkError>(call: BreakerPermit, answer: Result<T, E>) -> Result<T, E> {
    match answer.as_ref().map_err(E::database) {
        Ok(_) | Err(None) => call.answered(),
        Err(Some(sqlx::Error::PoolTimedOut)) => {
            if call.got_no_connection().await {
                return Err(all_in_use().into());
            }
        }
        Err(Some(error)) if Fault::of(error) == Fault::Connection => call.failed(),
        // Any other error is an answer of the server.
        Err(Some(sqlx::Error::Database(_))) => call.answered(),
        Err(Some(_)) => {}
    }
    answer
}
