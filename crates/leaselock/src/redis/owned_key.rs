//! The key that `plain`, `setnx` and `setnx-expire` share: its value is its owner.

use std::time::Duration;

use ::redis::AsyncCommands;
use ::redis_connection::Script;

use super::server::Server;
use super::{Connection, backend_error};
use crate::store::{Renewal, StoreResult, Token};
use crate::{InvalidName, LockName};

/// The keys of one kind. Only the owner, which is the value of a key, changes it.
pub(crate) struct OwnedKey<C> {
    server: Server<C>,
    renew: Script,
    release: Script,
}

impl<C: Connection> OwnedKey<C> {
    pub(crate) fn new(connection: C, key_prefix: &str, kind: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            server: Server::of_kind(connection, None, key_prefix, kind)?,
            renew: Script::new(include_str!("value_renew.lua")),
            release: Script::new(include_str!("value_release.lua")),
        })
    }

    /// The connection, for further commands.
    pub(crate) fn redis(&self) -> C {
        self.server.connection.clone()
    }

    pub(crate) fn of(&self, name: &LockName) -> String {
        self.server.keys.lock(name)
    }

    /// Whether `token` is the owner.
    pub(crate) async fn is_ours(&self, key: &str, token: &Token) -> StoreResult<bool> {
        let owner: Option<String> = self.redis().get(key).await.map_err(backend_error)?;
        Ok(owner.as_deref() == Some(token.as_str()))
    }

    /// Sets the expiry of the key if `token` owns it.
    pub(crate) async fn renew(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<bool> {
        self.server.renew(&self.renew, &[self.of(name)], token, lease).await
    }

    /// Renews several names in one round trip.
    pub(crate) async fn renew_together(
        &self,
        renewals: &[Renewal],
    ) -> StoreResult<Vec<Option<bool>>> {
        self.server.renew_together(&self.renew, renewals).await
    }

    /// Deletes the key if `token` owns it.
    pub(crate) async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        self.server.run(&self.release, &[self.of(name)], &[token.as_str()]).await
    }
}
