//! The key that `plain`, `setnx` and `setnx-expire` share: its value is its owner.

use std::time::Duration;

use ::redis::AsyncCommands;

use super::{Compare, Connection, Keys};
use crate::store::{BackendError, Renewal, StoreResult, Token};
use crate::{InvalidName, LockName};

/// The keys of one kind. Only the owner, which is the value of a key, changes it.
pub(crate) struct OwnedKey<C> {
    connection: C,
    keys: Keys,
    compare: Compare,
}

impl<C: Connection> OwnedKey<C> {
    pub(crate) fn new(connection: C, key_prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        let keys = Keys::of_kind(key_prefix, kind)?;
        Ok(Self { connection, keys, compare: Compare::default() })
    }

    /// The connection, for further commands.
    pub(crate) fn redis(&self) -> C {
        self.connection.clone()
    }

    pub(crate) fn of(&self, name: &LockName) -> String {
        self.keys.lock(name)
    }

    /// Whether `token` is the owner.
    pub(crate) async fn is_ours(&self, key: &str, token: &Token) -> StoreResult<bool> {
        let owner: Option<String> = self.redis().get(key).await.map_err(BackendError::of)?;
        Ok(owner.as_deref() == Some(token.as_str()))
    }

    /// Sets the expiry of the key if `token` owns it.
    pub(crate) async fn renew(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<bool> {
        let key = self.of(name);
        let value = token.as_str();
        let renewed = self.compare.expire(&self.connection, &key, value, lease).await;
        renewed.map_err(BackendError::of)
    }

    /// Renews several names in one round trip.
    pub(crate) async fn renew_together(
        &self,
        renewals: &[Renewal],
    ) -> StoreResult<Vec<Option<bool>>> {
        let key_of = |renewal: &Renewal| self.of(&renewal.name);
        let keys: Vec<_> =
            renewals.iter().map(|one| (key_of(one), one.token.as_str(), one.lease)).collect();
        self.compare.expire_each(&self.connection, &keys).await.map_err(BackendError::of)
    }

    /// Deletes the key if `token` owns it.
    pub(crate) async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let deleted = self.compare.delete(&self.connection, &self.of(name), token.as_str()).await;
        deleted.map_err(BackendError::of)
    }
}
