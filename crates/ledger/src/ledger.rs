//! One ledger: its connections behind its breaker, and what is tried again there.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::Database;
use crate::route::breaker::Breaker;
use crate::rows::link::is_silence;
use crate::rows::{
    Fault, LedgerTransaction, WorkError, ask, ask::change_or_refuse, failed_change, failed_read,
    nothing_was_sent, transact, unconfirmed,
};
use shop_domain::LedgerError;

/// The connections to a ledger, and its breaker.
#[derive(Clone)]
pub struct Ledger {
    pub pool: Database,
    pub breaker: Breaker,
}

/// Which errors of a transaction pass, so that the transaction is tried again, and how often.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    attempts_max: u32,
    passing: &'static [Fault],
    /// Whether a missing answer passes too.
    waits_again: bool,
}

/// The longest pause before the second attempt; it doubles, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

impl RetryPolicy {
    /// For work that may be done once only.
    pub const ONCE: Self = Self { attempts_max: 1, passing: &[], waits_again: false };
    /// For work that has no further effect when it is done again, after a COMMIT whose answer was lost, too.
    pub const IDEMPOTENT: Self = Self {
        passing: &[Fault::Transient, Fault::Connection, Fault::Duplicate],
        ..Self::REPEATED
    };
    /// For work that is done again only after the server has rolled it back.
    pub const ROLLED_BACK: Self =
        Self { passing: &[Fault::Transient, Fault::Duplicate], ..Self::REPEATED };
    /// For a read: a connection may have died unused.
    pub const READ: Self =
        Self { passing: &[Fault::Connection], waits_again: false, ..Self::REPEATED };
    const REPEATED: Self = Self { attempts_max: 4, passing: &[], waits_again: true };

    /// Runs `work` until it ends with a value, a refusal, or an error that does not pass.
    ///
    /// # Errors
    /// Those of the last attempt. When an earlier attempt may have written, "nothing was sent" says nothing of
    /// that one: the error is then [`unconfirmed`].
    pub async fn run<T, E: WorkError, F: Future<Output = Result<T, E>>>(
        self,
        mut work: impl FnMut() -> F,
    ) -> Result<T, E> {
        let (mut attempt, mut may_have_written) = (1, false);
        loop {
            let error = match work().await.map_err(E::into_database) {
                Ok(value) => return Ok(value),
                Err(Err(refusal)) => return Err(refusal),
                Err(Ok(error)) => error,
            };
            let (fault, is_unsent) = (Fault::of(&error), nothing_was_sent(&error));
            let passes = self.passing.contains(&fault) && (self.waits_again || !is_silence(&error));
            if is_unsent || attempt == self.attempts_max || !passes {
                let wrote_nothing = is_unsent || fault == Fault::ReadOnly;
                let hides = may_have_written && wrote_nothing;
                return Err(if hides { unconfirmed(error) } else { error }.into());
            }
            may_have_written |= fault == Fault::Connection;
            let longest = PAUSE_FIRST * 2_u32.pow(attempt);
            tokio::time::sleep(longest.mul_f64(rand::random::<f64>())).await;
            attempt += 1;
        }
    }
}

impl Ledger {
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
        // Boxed: it would make the future of each caller larger.
        policy.run(|| Box::pin(change_or_refuse(&self.breaker, transact(&self.pool, &work)))).await
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

    /// Changes something in one transaction, once.
    ///
    /// # Errors
    /// When it was not changed, or may have been; the cause is logged.
    pub async fn change<'w, T>(
        &self,
        work: impl for<'t> Fn(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, sqlx::Result<T>>,
    ) -> Result<T, LedgerError> {
        let changed = self.transact(RetryPolicy::ONCE, work).await;
        changed.map_err(|error| failed_change(&error))
    }
}
