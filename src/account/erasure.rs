//! The deletion of a person, on request of the person or of an operator. The transactions are in `ledger::erasure`.

use std::net::IpAddr;

use super::{AccountError, AccountParts, Accounts, Actor};
use ledger::erasure::{EraseError, Erasure, ErasureRequest};
use ledger::rows::subjects::SubjectKeys;
use settings::Secret;
use shop_domain::UserId;

/// The keys under which the subjects of deleted people are hashed.
pub fn subject_keys(secret: &Secret, previous: &Secret) -> SubjectKeys {
    let previous = (!previous.is_empty()).then(|| previous.reveal().as_bytes());
    SubjectKeys::new(secret.reveal().as_bytes(), previous)
}

impl Accounts {
    /// Deletes the account of a user who sends the password once more.
    pub async fn delete_by_password(
        &self,
        user: UserId,
        password: String,
        address: IpAddr,
    ) -> Result<Erasure, AccountError> {
        let account = self.verify_password(user, password, address).await?;
        self.erase(user, Some(&account.password_hash), None).await
    }

    /// Deletes the account of a user whom another party has identified a moment ago, or whom an operator deletes.
    pub async fn erase(
        &self,
        user: UserId,
        password_hash: Option<&str>,
        actor: Option<&Actor>,
    ) -> Result<Erasure, AccountError> {
        // The queues first: an order that moves to the ledger meanwhile is found there, if not in its queue.
        let AccountParts { ledger, queue, .. } = &*self.parts;
        ledger.read(queue.refresh()).await?;
        let queued = Box::pin(queue.list(user)).await;
        if !queued.orders.is_empty() {
            return Err(EraseError::OrdersOpen.into());
        }
        if let Some(error) = queued.failed {
            tracing::warn!(%error, %user, "queued orders not read; the account stays");
            return Err(AccountError::QueueAway);
        }
        let keys = &self.parts.subject_keys;
        let request = ErasureRequest { user, password_hash, actor, keys };
        let erased = self.parts.eraser.erase(&request).await?;
        self.parts.revocations.end_earlier_than(user, erased.generation);
        tracing::info!(%user, had_account = erased.had_account, "account deleted");
        let tables = &self.parts.eraser.tables_left;
        if !tables.is_empty() {
            tracing::warn!(%user, ?tables, "tables keep what they have of a deleted person: this build lacks their extensions");
        }
        Ok(erased)
    }
}
