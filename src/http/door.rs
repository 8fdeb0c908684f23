//! The door of the shop: a place to hash a password, and how often one may try to sign in.
//!
//! Failed tries are counted for an account and an address together, so that a stranger's guesses
//! shut the stranger out and not the owner. When an account is guessed at from many addresses, each
//! of them has fewer tries; the right password from an address that has not failed still opens.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use sqlx::MySqlPool;

use super::problem::{Problem, ProblemType};
use crate::session::Hashing;
use crate::session::hashing::{Busy, Place};
use crate::store::breaker::Breaker;
use crate::store::mysql::failures::{self, Failures};
use crate::store::mysql::{self, Fault};

/// Failed sign-ins to one account from one address before that address has to wait.
const ADDRESS_FAILURES_MAX: u32 = 10;
/// Failed sign-ins to one account from everywhere before each address has fewer tries.
const ACCOUNT_FAILURES_MAX: u32 = 100;
/// The tries of each address then: the owner may mistype once.
const ADDRESS_FAILURES_MAX_BRAKED: u32 = 2;
/// How long failures count, from the first of them.
const WINDOW_SECONDS: u32 = 60;
/// Old counts are deleted after so many tries.
const TRIES_BETWEEN_CLEAN_UPS: u32 = 100;

/// Where passwords are hashed and failed sign-ins are counted. Clones share it.
#[derive(Clone)]
pub struct Door {
    hashing: Hashing,
    pool: MySqlPool,
    breaker: Breaker,
    tries: Arc<AtomicU32>,
}

/// A try that counts as failed until it is forgiven.
pub(super) struct Try {
    account: String,
    address: IpAddr,
    failures: Failures,
}

impl Door {
    /// A door that hashes `hashing_max` passwords at once and counts failures in the ledger.
    #[must_use]
    pub fn new(hashing_max: usize, pool: MySqlPool, breaker: Breaker) -> Self {
        Self { hashing: Hashing::new(hashing_max), pool, breaker, tries: Arc::default() }
    }

    /// Waits for a place to hash a password; addresses are served in turns.
    ///
    /// # Errors
    /// 503 when too many wait already.
    pub(super) async fn enter(&self, address: IpAddr) -> Result<Place, Problem> {
        self.hashing.enter(address).await.map_err(|Busy| {
            ProblemType::Overloaded.detail("Too many sign-ins are waiting; try again in a moment.")
        })
    }

    /// Counts a try as failed before it is judged.
    ///
    /// # Errors
    /// 429 when the address has failed too often, 503 when the ledger does not answer.
    pub(super) async fn count(&self, folded: &str, address: IpAddr) -> Result<Try, Problem> {
        let account = BASE64.encode(Sha256::digest(folded));
        let from = address.to_string();
        let counting = failures::count(&self.pool, &account, &from, WINDOW_SECONDS, is_allowed);
        let counted = mysql::change(&self.breaker, counting).await;
        // Nothing but a count may have changed.
        let failures = counted.map_err(|error| match Fault::of(&error) {
            Fault::ReadOnly => Problem::read_only(),
            _ => Problem::database(&error),
        })?;
        if !is_allowed(failures) {
            return Err(ProblemType::TooManyAttempts.problem().retry_after(WINDOW_SECONDS));
        }
        if self.tries.fetch_add(1, Ordering::Relaxed).is_multiple_of(TRIES_BETWEEN_CLEAN_UPS) {
            let forgot = failures::forget_old(&self.pool, WINDOW_SECONDS).await;
            if let Err(error) = forgot {
                tracing::debug!(%error, "old failed sign-ins were not deleted");
            }
        }
        Ok(Try { account, address, failures })
    }

    /// Takes a try back: the password was right, or the caller was not to blame.
    pub(super) async fn forgive(&self, tried: &Try) {
        let from = tried.address.to_string();
        let forgiving = failures::forgive(&self.pool, &tried.account, &from);
        if let Err(error) = mysql::change(&self.breaker, forgiving).await {
            // It is forgotten within a minute anyway.
            tracing::debug!(%error, "a right sign-in still counts as a failed one");
        }
    }
}

impl Try {
    /// Tells the log of a failed sign-in; the name is not told, since people type passwords into
    /// the wrong field.
    pub(super) fn log_failure(&self, user: Option<i64>) {
        let Failures { of_address, of_account } = self.failures;
        let address = self.address;
        tracing::info!(%address, user, of_address, of_account, "a sign-in failed");
        if of_address == ADDRESS_FAILURES_MAX {
            tracing::warn!(%address, user, "an address has used up its sign-ins to an account");
        }
        if of_account == ACCOUNT_FAILURES_MAX {
            tracing::warn!(user, "an account is guessed at from many addresses: fewer tries each");
        }
    }
}

fn is_allowed(failures: Failures) -> bool {
    let is_braked = failures.of_account > ACCOUNT_FAILURES_MAX;
    let most = if is_braked { ADDRESS_FAILURES_MAX_BRAKED } else { ADDRESS_FAILURES_MAX };
    failures.of_address <= most
}
