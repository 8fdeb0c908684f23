//! Accounts: signing up, in and out; tokens, passwords, and the log of what operators did.
//!
//! A token is verified without a database, so that ten thousand buyers are identified while the
//! databases are busy selling.

mod erasure;
pub mod hashing;
pub mod password;
pub mod revocation;
mod sessions;
mod throttle;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gates::redis_store::Queue;
use ledger::erasure::{EraseError, Eraser};
use ledger::{Ledger, guests};

use ledger::rows::actions;
use ledger::rows::subjects::SubjectKeys;
use ledger::rows::users::{self, Account, NewAccount};
use ledger::work::{change, failed_change};
use shop_domain::{
    BuyerReference, Clock, LedgerError, OrderId, ShopId, UserId, Username, username,
};
use throttle::SignInThrottle;
use web::session::Session;
use web::token::{Role, Tokens};

pub use erasure::subject_keys;
pub use hashing::HashingPool;
pub use ledger::rows::actions::{Action, Actor, NAMES as ACTION_NAMES};
pub use revocation::Revocations;

/// The reason why nobody was signed up or in, or why a password or an account stayed as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Accounts with passwords are switched off.
    #[error("passwords are switched off")]
    PasswordsOff,
    /// The name is not acceptable, see [`Username`].
    #[error("the username is not acceptable")]
    InvalidUsername,
    /// The new password is too short or too long.
    #[error("the password is not acceptable")]
    InvalidPassword,
    /// The new password is one that attackers try first, or the name.
    #[error("the password is easy to guess")]
    CommonPassword,
    /// The name, or one that looks like it, belongs to another account.
    #[error("the username is taken")]
    UsernameTaken,
    /// The user has no account with a password, such as the buyers of a load test.
    #[error("no such account")]
    NoAccount,
    /// The name or the password is wrong; the error does not say which.
    #[error("wrong username or password")]
    WrongCredentials,
    /// The address has failed too often with this name.
    #[error("too many failed sign-ins")]
    TooManyAttempts {
        /// The time until the next try is allowed.
        retry_after_seconds: u32,
    },
    /// Too many passwords wait to be hashed.
    #[error("too many passwords wait to be hashed")]
    HashingBusy,
    /// Hashing failed or panicked.
    #[error("the password could not be hashed")]
    HashingFailed,
    /// The server of an item's queue does not answer, so nobody knows whether an order of the user waits there.
    #[error("the queues of orders were not read")]
    QueueAway,
    /// What forbids the deletion of the account.
    #[error(transparent)]
    Erase(#[from] EraseError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// The parts of [`Accounts`].
pub struct AccountParts {
    pub ledger: Ledger,
    pub eraser: Eraser,
    /// The orders that are not in the ledger yet.
    pub queue: Queue,
    pub hashing: HashingPool,
    pub tokens: Tokens,
    /// Hash the subjects of deleted people.
    pub subject_keys: SubjectKeys,
    pub revocations: Revocations,
    pub clock: Clock,
    /// How long a session lasts.
    pub token_life: Duration,
    /// Whether demo accounts, whose passwords are public, may sign in.
    pub demo_accounts: bool,
    /// Whether people can sign up and sign in with a password.
    pub own_accounts: bool,
}

/// The buyers of the references of one request. One is missing when the ledger does not know the shop: it is an older
/// copy of the one that has made the token.
pub type Guests = HashMap<BuyerReference, UserId>;

/// The accounts in the ledger. Clones share everything.
#[derive(Clone)]
pub struct Accounts {
    parts: Arc<AccountParts>,
    throttle: SignInThrottle,
}

impl Accounts {
    /// Makes accounts of the parts.
    pub fn new(parts: AccountParts) -> Self {
        let throttle = SignInThrottle::new(parts.ledger.clone());
        Self { parts: Arc::new(parts), throttle }
    }

    /// Creates an account for a buyer. Waits for password hashing under `address`.
    pub async fn sign_up(
        &self,
        username: &str,
        password: String,
        address: IpAddr,
    ) -> Result<UserId, AccountError> {
        if !self.parts.own_accounts {
            return Err(AccountError::PasswordsOff);
        }
        let username = Username::parse(username).ok_or(AccountError::InvalidUsername)?;
        if !password::is_acceptable(&password) {
            return Err(AccountError::InvalidPassword);
        }
        if password::is_common(&password, username.typed()) {
            return Err(AccountError::CommonPassword);
        }
        let permit = self.parts.hashing.acquire(address).await?;
        let password_hash = permit.hash(password).await?;
        let new = NewAccount {
            username: &username,
            password_hash: &password_hash,
            role: Role::Buyer.as_str(),
            demo: false,
        };
        let create = users::create(&self.parts.ledger.pool, &new, self.parts.clock.now());
        self.change(create).await?.ok_or(AccountError::UsernameTaken)
    }

    /// Finds the buyers of a shop's references, all with one read; the first request with a reference makes the guest.
    pub async fn guests(
        &self,
        shop: ShopId,
        references: &BTreeSet<BuyerReference>,
    ) -> Result<Guests, LedgerError> {
        guests::find_or_create(&self.parts.ledger, shop, references).await
    }

    /// Reads at most `limit` lines of the log of operators' actions, newest first, those older than the line `before`:
    /// of `operator` alone, or of all. Who does something writes its line, most in the transaction of the change.
    pub async fn actions(
        &self,
        operator: Option<UserId>,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<Action>, LedgerError> {
        let ledger = &self.parts.ledger;
        ledger.read(actions::list(&ledger.pool, operator, before, limit)).await
    }

    /// Runs a change of the ledger behind its breaker.
    async fn change<T>(
        &self,
        work: impl Future<Output = ledger::Result<T>>,
    ) -> Result<T, LedgerError> {
        change(&self.parts.ledger.breaker, work).await.map_err(|error| failed_change(&error))
    }

    /// Returns whether people can sign up and sign in with a password.
    pub fn own_accounts(&self) -> bool {
        self.parts.own_accounts
    }

    /// Signs a user in. An unknown name takes as long as a wrong password.
    pub async fn sign_in(
        &self,
        username: &str,
        password: String,
        address: IpAddr,
    ) -> Result<Session, AccountError> {
        if !self.parts.own_accounts {
            return Err(AccountError::PasswordsOff);
        }
        let folded = username::fold(username).ok_or(AccountError::WrongCredentials)?;
        if password.len() > password::PASSWORD_BYTES_MAX {
            return Err(AccountError::WrongCredentials);
        }
        // The ledger is read only with a hashing permit, so that a flood of guesses does not reach
        // it.
        let permit = self.parts.hashing.acquire(address).await?;
        let ledger = &self.parts.ledger;
        let account = ledger.read(users::find(&ledger.pool, &folded)).await?;
        let attempt = self.throttle.count(&folded, address).await?;
        let hash = account.as_ref().map(|account| account.password_hash.clone());
        let is_right = permit.verify(password, hash).await?;
        let user = account.as_ref().map(|account| account.id.get());
        let may_sign_in =
            |account: &Account| is_right && (!account.demo || self.parts.demo_accounts);
        let Some(account) = account.filter(may_sign_in) else {
            attempt.log_failure(user);
            return Err(AccountError::WrongCredentials);
        };
        self.throttle.forgive(&attempt).await;
        let role = Role::parse(&account.role).unwrap_or(Role::Buyer);
        let kept = self.kept_generation(account.id, account.generation).await?;
        let generation = kept.ok_or(AccountError::WrongCredentials)?;
        Ok(self.session(account.id, role, generation, None))
    }
}
