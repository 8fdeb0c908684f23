//! The sessions of a user: opening one, signing out, and changing the password, which ends all
//! others.

use std::net::IpAddr;

use async_trait::async_trait;
use ledger::rows::{sessions, users};
use time::OffsetDateTime;

use super::{AccountError, Accounts, password};
use extension::ports::SessionOpener;
use ledger::rows::subjects::SubjectKeys;
use shop_domain::{LedgerError, UserId};
use web::session::Session;
use web::token::{Claims, Holder, Role};

impl Accounts {
    /// Makes the session of a user who has proved who it is, in the present `generation` of the
    /// user's sessions. It lasts as long as all do, and at most until `until`.
    pub(super) fn session(
        &self,
        user: UserId,
        role: Role,
        generation: u32,
        until: Option<OffsetDateTime>,
    ) -> Session {
        let usual = self.parts.clock.now() + self.parts.token_life;
        let expires_at = until.map_or(usual, |until| until.min(usual));
        let holder = Holder::User { id: user, role };
        let token = self.parts.tokens.sign_in_generation(holder, expires_at, generation);
        Session { token, user, role, expires_at }
    }

    /// The generation for a new session of a user who was read with `generation`; `None` when the sessions ended after
    /// that, so the password and the role that were read may be old. When the ledger has lost a later generation than
    /// it has, a new one begins: so what was signed out stays out, and the user gets in.
    pub(super) async fn kept_generation(
        &self,
        user: UserId,
        generation: u32,
    ) -> Result<Option<u32>, LedgerError> {
        if !self.parts.revocations.knows_later(user, generation) {
            return Ok(Some(generation));
        }
        let ledger = &self.parts.ledger;
        let present = ledger.read(sessions::generation(&ledger.pool, user)).await?;
        if present != generation {
            return Ok(None);
        }
        self.sign_out_everywhere(user).await.map(Some)
    }

    /// The name of a user; `None` if it has no account, such as the buyers of a load test.
    pub async fn name_of(&self, user: UserId) -> Result<Option<String>, LedgerError> {
        let ledger = &self.parts.ledger;
        ledger.read(users::name_of(&ledger.pool, user)).await
    }

    /// Signs a session out: its token is refused here at once, and on other instances after two
    /// seconds at most.
    ///
    /// # Errors
    /// When the ledger does not store it; then only this instance refuses the token.
    pub async fn sign_out(&self, claims: &Claims) -> Result<(), LedgerError> {
        let revoke = self.parts.revocations.revoke(&claims.token_id, claims.expires_at);
        self.change(revoke).await
    }

    /// Signs all sessions of a user out: here at once, on other instances after two seconds at
    /// most. Returns the generation that begins.
    ///
    /// # Errors
    /// When the ledger does not answer; after [`LedgerError::OutcomeUnknown`] the sessions may have
    /// ended.
    pub async fn sign_out_everywhere(&self, user: UserId) -> Result<u32, LedgerError> {
        let generation = self.change(sessions::end_all(&self.parts.ledger.pool, user)).await?;
        self.parts.revocations.end_earlier_than(user, generation);
        Ok(generation)
    }

    /// Verifies the password of a user who is signed in, and has an account with a password of its own. A wrong one
    /// counts as a failed sign-in. Waits for password hashing under `address`.
    pub(super) async fn verify_password(
        &self,
        user: UserId,
        password: String,
        address: IpAddr,
    ) -> Result<users::Account, AccountError> {
        if !self.parts.own_accounts {
            return Err(AccountError::PasswordsOff);
        }
        if password.len() > password::PASSWORD_BYTES_MAX {
            return Err(AccountError::WrongCredentials);
        }
        let permit = self.parts.hashing.acquire(address).await?;
        let ledger = &self.parts.ledger;
        let account = ledger.read(users::find_by_id(&ledger.pool, user)).await?;
        // The password of a demo account is public, so it proves nothing.
        let account = account.filter(|account| !account.demo && !account.password_hash.is_empty());
        let account = account.ok_or(AccountError::NoAccount)?;
        let attempt = self.throttle.count(&account.username_folded, address).await?;
        if !permit.verify(password, Some(account.password_hash.clone())).await? {
            attempt.log_failure(Some(user.get()));
            return Err(AccountError::WrongCredentials);
        }
        self.throttle.forgive(&attempt).await;
        Ok(account)
    }

    /// Changes the password of a user, ends all sessions, and opens a new one. A wrong `current`
    /// password counts as a failed sign-in. Waits for password hashing under `address`.
    pub async fn change_password(
        &self,
        user: UserId,
        current: String,
        new: String,
        address: IpAddr,
    ) -> Result<Session, AccountError> {
        if !password::is_acceptable(&new) {
            return Err(AccountError::InvalidPassword);
        }
        let account = self.verify_password(user, current, address).await?;
        if password::is_common(&new, &account.username_folded) {
            return Err(AccountError::CommonPassword);
        }
        let old = account.password_hash;
        let hash = self.parts.hashing.acquire(address).await?.hash(new).await?;
        let change = users::change_password(&self.parts.ledger.pool, user, (&old, &hash));
        // `None` when another change came first, so that the present password is another one.
        let generation = self.change(change).await?.ok_or(AccountError::WrongCredentials)?;
        self.parts.revocations.end_earlier_than(user, generation);
        let role = Role::parse(&account.role).unwrap_or(Role::Buyer);
        Ok(self.session(user, role, generation, None))
    }
}

#[async_trait]
impl SessionOpener for Accounts {
    async fn open_session(
        &self,
        user: UserId,
        role: Role,
        until: Option<OffsetDateTime>,
    ) -> Result<Session, LedgerError> {
        let ledger = &self.parts.ledger;
        let generation = ledger.read(sessions::generation(&ledger.pool, user)).await?;
        let kept = self.kept_generation(user, generation).await?;
        // The sessions end at this moment: a later try reads the present generation.
        let generation = kept.ok_or(LedgerError::Unavailable)?;
        Ok(self.session(user, role, generation, until))
    }

    fn subject_keys(&self) -> &SubjectKeys {
        &self.parts.subject_keys
    }
}
