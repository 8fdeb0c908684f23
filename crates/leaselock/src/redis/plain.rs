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

use ::redis::{AsyncCommands, ExistenceCheck, RedisResult, SetExpiry, SetOptions};
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
    start(connection, key_prefix, Expiry::WithKey, &CAPABILITIES, tasks)
}

/// When a key gets its expiry: as in this kind, or as in a textbook's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// With the key, by one command.
    WithKey,
    /// By a second command. A refused contender that finds no expiry sets one if `repairs`.
    Afterwards { repairs: bool },
    /// Never: the key of a dead holder stays.
    Never,
}

/// Makes a lock of this kind, or of a textbook's.
pub(crate) fn start<C: Connection>(
    connection: C,
    key_prefix: &str,
    expiry: Expiry,
    capabilities: &'static Capabilities,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let keys = Keys::of_kind(key_prefix, capabilities.kind)?;
    let store = OwnedKey { connection, keys, compare: Compare::default(), expiry };
    Ok(LeasedMutex::start(Arc::new(store), capabilities, tasks))
}

/// The keys of one kind. Only the owner, which is the value of a key, changes it.
struct OwnedKey<C> {
    connection: C,
    keys: Keys,
    compare: Compare,
    expiry: Expiry,
}

impl<C: Connection> OwnedKey<C> {
    /// Sets the key if there is none; returns whether `token` is its owner.
    async fn take(&self, key: &str, token: &Token, lease: Duration) -> RedisResult<bool> {
        const NO_EXPIRY: i64 = -1;
        let mut redis = self.connection.clone();
        let me = token.as_str();
        if self.expiry == Expiry::WithKey {
            let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            let options = SetOptions::default()
                .conditional_set(ExistenceCheck::NX)
                .with_expiration(SetExpiry::PX(lease_ms));
            let set: Option<String> = redis.set_options(key, me, options).await?;
            if set.is_some() || !token.is_retry() {
                return Ok(set.is_some());
            }
            // Ours already, if the answer to an earlier try was lost: with a lease from now on.
            return self.compare.expire(&self.connection, key, me, lease).await;
        }
        let set: bool = redis.set_nx(key, me).await?;
        let is_ours = set || self.is_owner(key, token).await?;
        let Expiry::Afterwards { repairs } = self.expiry else { return Ok(is_ours) };
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        if is_ours {
            // A death here is the fault. If the key is gone by now, the hold has ended already.
            return redis.pexpire(key, lease_ms).await;
        }
        let left_ms: i64 = if repairs { redis.pttl(key).await? } else { 0 };
        if left_ms == NO_EXPIRY {
            let _: bool = redis.pexpire(key, lease_ms).await?;
        }
        Ok(false)
    }

    async fn is_owner(&self, key: &str, token: &Token) -> RedisResult<bool> {
        let owner: Option<String> = self.connection.clone().get(key).await?;
        Ok(owner.as_deref() == Some(token.as_str()))
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for OwnedKey<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let taken = self.take(&self.keys.lock(name), token, lease).await;
        Ok(taken.map_err(BackendError::of)?.then_some(Grant::UNFENCED))
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let key = self.keys.lock(name);
        let renewed = if self.expiry == Expiry::Never {
            // There is no lease, and nothing to extend.
            self.is_owner(&key, token).await
        } else {
            self.compare.expire(&self.connection, &key, token.as_str(), lease).await
        };
        renewed.map_err(BackendError::of)
    }

    fn renews_together(&self) -> bool {
        self.expiry != Expiry::Never
    }

    async fn renew_together(&self, renewals: &[Renewal]) -> StoreResult<Vec<Option<bool>>> {
        let key_of = |renewal: &Renewal| self.keys.lock(&renewal.name);
        let keys: Vec<_> =
            renewals.iter().map(|one| (key_of(one), one.token.as_str(), one.lease)).collect();
        self.compare.expire_each(&self.connection, &keys).await.map_err(BackendError::of)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let key = self.keys.lock(name);
        let deleted = self.compare.delete(&self.connection, &key, token.as_str()).await;
        deleted.map_err(BackendError::of)
    }
}
