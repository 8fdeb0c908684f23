//! The ledger: its connections behind its breaker, which refuses statements at once while it is open, and the retries of
//! its transactions.

use futures::future::BoxFuture;

use super::breaker::{Breaker, BreakerPermit};
use super::item_concurrency::{ItemConcurrency, in_time, step_deadline};
use super::item_permit::ItemPermit;
use super::{ATTEMPTS_MAX, pause};
use mysql_connection::limits::{LONG_READ_MAX, TRANSACTION_MAX, is_silence, within_limit};
use mysql_connection::{
    Database, Fault, LedgerTransaction, WorkError, all_in_use, is_unconfirmed, transact,
    unconfirmed, with_new_id, within,
};
use shop_domain::{ItemId, LedgerError};

/// The connections to the ledger, its breaker, and the limit of each item. Clones share them.
#[derive(Clone)]
pub struct Ledger {
    pub pool: Database,
    pub breaker: Breaker,
    /// How many transactions of one item hold a connection at once.
    pub items: ItemConcurrency,
}

/// Which errors of a transaction pass, so that the transaction is tried again, and how often.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    attempts_max: u32,
    passing: &'static [Fault],
    /// Whether a missing answer is tried again, too.
    waits_again: bool,
    /// Whether an attempt whose connection broke may have changed something.
    writes: bool,
}

impl RetryPolicy {
    /// For work that may be done once only: it is done again only after the server has rolled it back.
    pub const ONCE: Self = Self { passing: &[Fault::Transient], ..Self::REPEATED };
    /// For work that has no further effect when it is done again, after a COMMIT whose answer was lost, too.
    pub const IDEMPOTENT: Self = Self {
        passing: &[Fault::Transient, Fault::Connection, Fault::Duplicate],
        ..Self::REPEATED
    };
    /// Like [`RetryPolicy::ONCE`], and again after a duplicate, which another one has written meanwhile.
    pub const ROLLED_BACK: Self =
        Self { passing: &[Fault::Transient, Fault::Duplicate], ..Self::REPEATED };
    /// For a read: a connection may have died unused.
    pub const READ: Self =
        Self { passing: &[Fault::Connection], waits_again: false, writes: false, ..Self::REPEATED };
    const REPEATED: Self =
        Self { attempts_max: ATTEMPTS_MAX, passing: &[], waits_again: true, writes: true };

    /// Runs `work` until it ends with a value, a refusal, or an error that does not pass.
    ///
    /// # Errors
    /// Those of the last attempt. When an earlier attempt may have written, the last one's error says nothing of that
    /// one, although itself it wrote nothing: the error is then [`unconfirmed`], with the cause of the earlier one.
    pub async fn run<T, E: WorkError, F: Future<Output = Result<T, E>>>(
        self,
        mut work: impl FnMut() -> F,
    ) -> Result<T, E> {
        // The error of an attempt that may have written.
        let mut attempt = 1;
        let mut lost = None;
        loop {
            let error = match work().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let Some(failed) = error.database() else { return Err(error) };
            let fault = Fault::of(failed);
            let is_unsent = nothing_was_sent(failed);
            let passes = self.passing.contains(&fault) && (self.waits_again || !is_silence(failed));
            if is_unsent || attempt == self.attempts_max || !passes {
                // A COMMIT that hangs holds the rows that the later attempts wait for.
                let wrote_nothing =
                    is_unsent || matches!(fault, Fault::ReadOnly | Fault::Full | Fault::Transient);
                return Err(match lost {
                    Some(cause) if wrote_nothing => {
                        unconfirmed(sqlx::Error::Io(std::io::Error::other(cause))).into()
                    }
                    _ => error,
                });
            }
            if self.writes && fault == Fault::Connection {
                lost = Some(failed.to_string());
            }
            pause(attempt).await;
            attempt += 1;
        }
    }
}

impl Ledger {
    /// A ledger over the connections of `pool`, of which each item has a share.
    pub fn new(pool: Database, breaker: Breaker) -> Self {
        let items = ItemConcurrency::new(pool.connections_max());
        Self { pool, breaker, items }
    }

    /// Waits for the permit of an item, without a connection: for a step of an order, of a waiting list or of a draw.
    ///
    /// # Errors
    /// Contended, when other transactions of the item have all permits for too long.
    pub async fn permit(&self, item: ItemId) -> Result<ItemPermit, LedgerError> {
        let permit = in_time(Some(step_deadline()), self.items.acquire(item)).await;
        permit.flatten().ok_or(LedgerError::Contended)
    }

    /// The permit of an operator's change of the item, which does not wait behind the item's buyers.
    ///
    /// # Errors
    /// Contended, when another change of the item takes too long.
    pub async fn permit_for_edit(&self, item: ItemId) -> Result<ItemPermit, LedgerError> {
        self.items.acquire_for_edit(item).await.ok_or(LedgerError::Contended)
    }

    /// Runs `work` in a transaction behind the breaker. Its errors are rolled back, and tried again as `policy`
    /// says.
    ///
    /// # Errors
    /// Those of `work` and of [`transact`].
    pub async fn transact<'w, T, E: WorkError>(
        &self,
        policy: RetryPolicy,
        work: impl for<'t> Fn(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, Result<T, E>>,
    ) -> Result<T, E> {
        policy.run(|| change(&self.breaker, transact(&self.pool, &work))).await
    }

    /// Reads behind the breaker. The read may be the probe of an open breaker.
    ///
    /// # Errors
    /// When the ledger does not answer; the cause is logged.
    pub async fn read<T>(
        &self,
        question: impl Future<Output = sqlx::Result<T>>,
    ) -> Result<T, LedgerError> {
        ask(&self.breaker, question).await.map_err(|error| failed_read(&error))
    }

    /// Changes something in one transaction, which is tried again as `policy` says.
    ///
    /// # Errors
    /// When it was not changed, or may have been; the cause is logged.
    pub async fn change<'w, T>(
        &self,
        policy: RetryPolicy,
        work: impl for<'t> Fn(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, sqlx::Result<T>>,
    ) -> Result<T, LedgerError> {
        self.transact(policy, work).await.map_err(|error| failed_change(&error))
    }

    /// Makes something with a new id in one transaction, again with another id if the id is taken.
    ///
    /// # Errors
    /// When it was not made, or may have been; the cause is logged.
    pub async fn create<'w, T>(
        &self,
        work: impl for<'t> Fn(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, sqlx::Result<T>>,
    ) -> Result<T, LedgerError> {
        let created = with_new_id(|| self.transact(RetryPolicy::ONCE, &work));
        created.await.map_err(|error| failed_change(&error))
    }
}

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
pub fn nothing_was_sent(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
        || Fault::of(error) == Fault::AllInUse
}

/// Logs a failed read, once, and converts the error for the caller.
pub fn failed_read(error: &sqlx::Error) -> LedgerError {
    tracing::warn!(%error, "ledger not read");
    match Fault::of(error) {
        Fault::AllInUse => LedgerError::Overloaded,
        _ => LedgerError::Unavailable,
    }
}

/// Logs a failed change, once, and converts the error: the change may have been made, unless
/// nothing was sent, or the server has rolled it back, refuses writes or cannot write.
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Mutex;

    use super::*;
    use mysql_connection::{Rollback, contended};

    /// Ends the attempts with `errors`, in their order, and all later ones well; returns how the last one
    /// ended, and the number of attempts.
    async fn run(policy: RetryPolicy, errors: Vec<sqlx::Error>) -> (sqlx::Result<()>, usize) {
        let left = Mutex::new(errors.into_iter());
        let attempts = Mutex::new(0);
        let ended = policy.run(|| async {
            *attempts.lock().expect("not poisoned") += 1;
            left.lock().expect("not poisoned").next().map_or(Ok(()), Err)
        });
        (ended.await, attempts.into_inner().expect("not poisoned"))
    }

    fn lost() -> sqlx::Error {
        sqlx::Error::Io(ErrorKind::ConnectionReset.into())
    }

    #[tokio::test]
    async fn what_passes_is_tried_again_up_to_a_limit() {
        let policy = RetryPolicy::IDEMPOTENT;
        let (ended, attempts) = run(policy, vec![lost(), lost()]).await;
        assert!(ended.is_ok() && attempts == 3, "{ended:?} after {attempts}");
        let (ended, attempts) = run(policy, (0..9).map(|_| lost()).collect()).await;
        assert!(ended.is_err() && attempts == 4, "{ended:?} after {attempts}");
        for policy in [RetryPolicy::ONCE, RetryPolicy::ROLLED_BACK] {
            let (ended, attempts) = run(policy, vec![lost()]).await;
            assert!(ended.is_err() && attempts == 1, "{policy:?}: {ended:?} after {attempts}");
        }
    }

    #[tokio::test]
    async fn nothing_was_sent_says_nothing_of_an_earlier_attempt() {
        let (ended, attempts) = run(RetryPolicy::IDEMPOTENT, vec![sqlx::Error::PoolTimedOut]).await;
        assert!(ended.is_err_and(|error| nothing_was_sent(&error)) && attempts == 1);
        let errors = vec![lost(), sqlx::Error::PoolTimedOut];
        let (ended, attempts) = run(RetryPolicy::IDEMPOTENT, errors).await;
        let error = ended.expect_err("no connection");
        assert!(is_unconfirmed(&error) && !nothing_was_sent(&error) && attempts == 2, "{error:?}");
        assert_eq!(failed_change(&error), LedgerError::OutcomeUnknown);
    }

    #[tokio::test]
    async fn a_contended_attempt_says_nothing_of_one_whose_commit_was_lost() {
        let errors = vec![lost(), contended(), contended(), contended()];
        let (ended, attempts) = run(RetryPolicy::IDEMPOTENT, errors).await;
        let error = ended.expect_err("the row was held");
        assert!(is_unconfirmed(&error) && attempts == 4, "{error:?} after {attempts}");
        let (ended, _) = run(RetryPolicy::IDEMPOTENT, (0..9).map(|_| contended()).collect()).await;
        let error = ended.expect_err("the row was held");
        assert_eq!(failed_change(&error), LedgerError::Contended);
    }

    #[tokio::test]
    async fn a_refusal_is_not_tried_again() {
        let attempts = Mutex::new(0);
        let refused = RetryPolicy::IDEMPOTENT.run(|| async {
            *attempts.lock().expect("not poisoned") += 1;
            Err::<(), _>(Rollback::Refused("no"))
        });
        assert!(matches!(refused.await, Err(Rollback::Refused("no"))));
        assert_eq!(attempts.into_inner().expect("not poisoned"), 1);
    }
}
