//! The key that `plain`, `setnx` and `setnx-expire` share: its value is its owner.

use std::time::Duration;

use ::redis::{AsyncCommands, Script};

use super::{Connection, Keys, backend_error, renew_together, run};
use crate::store::{BackendError, Renewal, StoreFuture, Token};
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
    pub(crate) async fn is_ours(&self, key: &str, token: &Token) -> Result<bool, BackendError> {
        let owner: Option<String> =
            self.connection.clone().get(key).await.map_err(backend_error)?;
        Ok(owner.as_deref() == Some(token.as_str()))
    }

    /// Sets the expiry of the key if `token` owns it.
    pub(crate) fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let arguments = [token.as_str(), &lease.as_millis().to_string()];
            run(&self.connection, &self.renew, &[&*self.of(name)], &arguments).await
        })
    }

    /// Renews several names in one round trip.
    pub(crate) fn renew_together<'a>(
        &'a self,
        renewals: &'a [Renewal],
    ) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(renew_together(&self.connection, &self.renew, &self.keys, renewals))
    }

    /// Deletes the key if `token` owns it.
    pub(crate) fn release<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            run(&self.connection, &self.release, &[&*self.of(name)], &[token.as_str()]).await
        })
    }
}
