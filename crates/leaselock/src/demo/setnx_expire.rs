//! `setnx-expire` on `redis`: SETNX, then the expiry as a second command. Shown for its fault.
//!
//! **How it works.** `SETNX key owner`, then `PEXPIRE key lease`. A contender that finds a key
//! without an expiry sets one, in case the winner died between the two commands
//! ([`Repair::ByWaiters`]). Renewal and release compare the owner first, by scripts.
//!
//! **What can go wrong.** A winner that dies between its two commands leaves a key that never
//! expires. Without the repair everybody waits for ever. With the repair everybody waits one more
//! lease, but the repair happens only if another contender comes. `SET NX PX` does both at once and
//! needs no repair. There is no fence against a holder that is paused beyond its lease.
//!
//! **When to use it.** Never. It shows why the key and its expiry must be one command.

use std::sync::Arc;
use std::time::Duration;

use ::redis::AsyncCommands;
use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use crate::redis::Connection;
use crate::redis::plain::OwnedKey;
use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, Renewal, StoreResult, Token};
use crate::{Capabilities, InvalidName, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "setnx-expire",
    summary: "SETNX, then PEXPIRE as a second command, whose lack waiters repair",
    breaks_when: "A winner dies between its two commands: the name is blocked until a waiter repairs it; or Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    ..crate::redis::MUTEX
};

/// Whether contenders set the expiry that a dead winner did not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Every refused contender that finds no expiry sets one.
    ByWaiters,
    /// Nobody sets it, as in the textbook form.
    Never,
}

/// Makes the lock; the other arguments are those of [`token::mutex`](crate::redis::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    repair: Repair,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let key = OwnedKey::new(connection, key_prefix, CAPABILITIES.kind)?;
    let store = SetnxExpireStore { key, repair };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct SetnxExpireStore<C> {
    key: OwnedKey<C>,
    repair: Repair,
}

impl<C: Connection> SetnxExpireStore<C> {
    async fn expire(&self, key: &str, lease: Duration) -> ::redis::RedisResult<bool> {
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        self.key.redis().pexpire(key, lease_ms).await
    }

    /// Handles a refusal: sets the expiry if the winner has not.
    async fn lose(&self, key: &str, lease: Duration) -> ::redis::RedisResult<()> {
        const NO_EXPIRY: i64 = -1;
        if self.repair == Repair::ByWaiters {
            let left_ms: i64 = self.key.redis().pttl(key).await?;
            if left_ms == NO_EXPIRY {
                self.expire(key, lease).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for SetnxExpireStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let key = self.key.of(name);
        let mut redis = self.key.redis();
        let set: bool = redis.set_nx(&key, token.as_str()).await.map_err(BackendError::of)?;
        if !set && !self.key.is_ours(&key, token).await? {
            self.lose(&key, lease).await.map_err(BackendError::of)?;
            return Ok(None);
        }
        // A death here is the fault. If the key is gone by now, the hold has ended already.
        let expires = self.expire(&key, lease).await.map_err(BackendError::of)?;
        Ok(expires.then_some(Grant::UNFENCED))
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
