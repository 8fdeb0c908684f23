//! `plain` on `redis`: one `SET NX PX` to acquire, a compare-and-delete to release, and no more.
//!
//! **How it works.** `SET key owner NX PX lease` makes the key and its expiry together. Renewal and
//! release compare the random owner first. A server that has a command for this gets that command:
//! `DELIFEQ` of Valkey 9, or `DELEX key IFEQ` of Redis 8.4, and `SET key owner IFEQ owner PX lease`
//! for the renewal. The other servers get scripts. The server is asked once which commands it has; a
//! server that refuses one later, such as an older one after a failover, gets scripts from then on.
//! An acquire that is repeated because its answer was lost checks whether the key is its own.
//!
//! **What can go wrong.** There is no fence against a holder that is paused beyond its lease, and
//! no queue: contenders poll. A failover of Redis may forget the lock.
//!
//! **When to use it.** Use it without waiting, when the lock only saves work and something else
//! protects the data. Examples: a second click on a button; a job that should run in one process.
//! It needs the fewest commands: one to acquire and one to release. With a Valkey 9 or a Redis 8.4 it
//! needs no Lua.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{AsyncCommands, ExistenceCheck, SetExpiry, SetOptions};
use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use super::{Compare, Connection, Keys};
use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, Renewal, StoreResult, Token};
use crate::{Capabilities, InvalidName, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "plain",
    summary: "SET NX PX and compare-and-delete, renewed; no fence and no queue",
    ..super::MUTEX
};

/// Makes the lock, with the arguments of [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = PlainStore { key: OwnedKey::new(connection, key_prefix, CAPABILITIES.kind)? };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct PlainStore<C> {
    key: OwnedKey<C>,
}

#[async_trait]
impl<C: Connection> LeaseStore for PlainStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let options = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(lease_ms));
        let mut redis = self.key.redis();
        let set: Option<String> = redis
            .set_options(self.key.of(name), token.as_str(), options)
            .await
            .map_err(BackendError::of)?;
        // Ours already, if the answer to an earlier try was lost: with a lease from now on.
        let ours = set.is_some() || token.is_retry() && self.key.renew(name, token, lease).await?;
        Ok(ours.then_some(Grant::UNFENCED))
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        self.key.renew(name, token, lease).await
    }

    fn renews_together(&self) -> bool {
        true
    }

    async fn renew_together(&self, renewals: &[Renewal]) -> StoreResult<Vec<Option<bool>>> {
        self.key.renew_together(renewals).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        self.key.release(name, token).await
    }
}

/// The keys of one kind: of this one, or of a textbook's. Only the owner, which is the value of a key, changes it.
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
