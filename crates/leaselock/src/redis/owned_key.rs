//! The key that `plain`, `setnx` and `setnx-expire` share: its value is its owner.

use std::time::Duration;

use ::redis::{AsyncCommands, Script};

use super::{Connection, Keys, backend_error, renew_together, run};
use crate::store::{Renewal, StoreResult, Token};
use crate::{InvalidName, LockName};

/// The keys of one kind. Only the owner, which is the value of a key, changes it.
pub(crate) struct OwnedKey<C> {
    pub(crate) connection: C,
    keys: Keys,
    renew: Script,
    release: Script,
}

impl<C: Connection> OwnedKey<C> {
    pub(crate) fn new(connection: C, key_prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            connection,
            keys: Keys::of_kind(key_prefix, kind)?,
            renew: Script::new(include_str!("value_renew.lua")),
            release: Script::new(include_str!("value_release.lua")),
        })
    }

    pub(crate) fn of(&self, name: &LockName) -> String {
        self.keys.lock(name)
    }

    /// Whether `token` is the owner.
    pub(crate) async fn is_ours(&self, key: &str, token: &Token) -> StoreResult<bool> {
        let owner: Option<String> =
            self.connection.clone().get(key).await.map_err(backend_error)?;
        Ok(owner.as_deref() == Some(token.as_str()))
    }

    /// Sets the expiry of the key if `token` owns it.
    pub(crate) async fn renew(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<bool> {
        let arguments = [token.as_str(), &lease.as_millis().to_string()];
        run(&self.connection, &self.renew, &[&*self.of(name)], &arguments).await
    }

    /// Renews several names in one round trip.
    pub(crate) async fn renew_together(&self, renewals: &[Renewal]) -> StoreResult<Vec<bool>> {
        renew_together(&self.connection, &self.renew, &self.keys, renewals).await
    }

    /// Deletes the key if `token` owns it.
    pub(crate) async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        run(&self.connection, &self.release, &[&*self.of(name)], &[token.as_str()]).await
    }
}
