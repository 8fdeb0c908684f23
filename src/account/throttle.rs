//! Limits failed sign-ins.
//!
//! Failed attempts are counted for an account and an address together, so that a stranger's guesses
//! lock the stranger out and not the owner. When an account is attacked from many addresses, each
//! of them has fewer attempts; the right password from an address that has not failed still works.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ledger::Ledger;

use super::AccountError;
use ledger::rows::failures::{self, Failures};
use ledger::work::{self, failed_change};
use shop_domain::LedgerError;

/// Failed sign-ins to one account from one address before that address has to wait.
const ADDRESS_FAILURES_MAX: u32 = 10;
/// Failed sign-ins to one account from everywhere before each address has fewer attempts.
const ACCOUNT_FAILURES_MAX: u32 = 100;
/// Attempts of each address after that: the owner may mistype once.
const ADDRESS_FAILURES_MAX_BRAKED: u32 = 2;
/// How long failures count, from the first of them.
const WINDOW_SECONDS: u32 = 60;
/// Old counts are deleted after this number of attempts.
const ATTEMPTS_BETWEEN_CLEAN_UPS: u32 = 100;

/// Counts failed sign-ins in the ledger, for all instances together. Clones share it.
#[derive(Clone)]
pub(super) struct SignInThrottle {
    ledger: Ledger,
    attempts: Arc<AtomicU32>,
}

/// A sign-in attempt, which counts as failed until it is forgiven.
pub(super) struct Attempt {
    account: String,
    address: IpAddr,
    failures: Failures,
}

impl SignInThrottle {
    pub(super) fn new(ledger: Ledger) -> Self {
        Self { ledger, attempts: Arc::default() }
    }

    /// Counts an attempt as failed, before the password is verified.
    ///
    /// # Errors
    /// When the address has failed too often, or the ledger does not answer.
    pub(super) async fn count(
        &self,
        username_folded: &str,
        address: IpAddr,
    ) -> Result<Attempt, AccountError> {
        let account = failures::account_of(username_folded);
        let from = address.to_string();
        let counting = failures::count(&self.ledger, &account, &from, WINDOW_SECONDS, is_allowed);
        let failures = counting.await.map_err(|error| match failed_change(&error) {
            // Only a count may have changed.
            LedgerError::OutcomeUnknown => LedgerError::Unavailable,
            known => known,
        })?;
        if !is_allowed(failures) {
            return Err(AccountError::TooManyAttempts { retry_after_seconds: WINDOW_SECONDS });
        }
        let attempts = self.attempts.fetch_add(1, Ordering::Relaxed);
        if attempts.is_multiple_of(ATTEMPTS_BETWEEN_CLEAN_UPS) {
            let deleted = failures::forget_old(&self.ledger.pool, WINDOW_SECONDS).await;
            if let Err(error) = deleted {
                tracing::debug!(%error, "old failed sign-ins not deleted");
            }
        }
        Ok(Attempt { account, address, failures })
    }

    /// Removes an attempt from the count: the password was right.
    pub(super) async fn forgive(&self, attempt: &Attempt) {
        let from = attempt.address.to_string();
        let forgiving = failures::forgive(&self.ledger.pool, &attempt.account, &from);
        if let Err(error) = work::change(&self.ledger.breaker, forgiving).await {
            // The count expires within a minute.
            tracing::debug!(%error, "successful sign-in still counts as a failed one");
        }
    }
}

impl Attempt {
    /// Logs a failed sign-in; without the name, since people type passwords into the wrong field.
    pub(super) fn log_failure(&self, user: Option<i64>) {
        let Failures { of_address, of_account } = self.failures;
        let address = self.address;
        tracing::info!(%address, user, of_address, of_account, "a sign-in failed");
        if of_address == ADDRESS_FAILURES_MAX {
            tracing::warn!(%address, user, "address has reached its limit of failed sign-ins to an account");
        }
        if of_account == ACCOUNT_FAILURES_MAX {
            tracing::warn!(
                user,
                "failed sign-ins to one account from many addresses: each of them has fewer attempts now"
            );
        }
    }
}

fn is_allowed(failures: Failures) -> bool {
    let is_braked = failures.of_account > ACCOUNT_FAILURES_MAX;
    let most = if is_braked { ADDRESS_FAILURES_MAX_BRAKED } else { ADDRESS_FAILURES_MAX };
    failures.of_address <= most
}
