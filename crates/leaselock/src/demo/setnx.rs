//! `setnx` on `redis`: the first lock in every textbook. Shown for its fault: it never expires.
//!
//! **How it works.** `SETNX key owner`: the contender that set the key holds the name. Release
//! compares the owner and deletes the key, by one command as `plain` does.
//!
//! **What can go wrong.** A holder that dies leaves its key behind, and everybody waits until an
//! operator deletes it. There is no fence.
//!
//! **When to use it.** Never. It shows what an expiry is for.

use std::sync::Arc;
use std::time::Duration;

use ::redis::AsyncCommands;
use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use crate::redis::Connection;
use crate::redis::plain::OwnedKey;
use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::{Capabilities, InvalidName, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "setnx",
    summary: "SETNX with an owner and without an expiry, compare-and-delete",
    breaks_when: "Its holder dies: nobody can ever hold the name again",
    renewed: false,
    lost_signal: false,
    expires: false,
    ..crate::redis::MUTEX
};

/// Makes the lock, with the arguments of [`token::mutex`](crate::redis::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = SetnxStore { key: OwnedKey::new(connection, key_prefix, CAPABILITIES.kind)? };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct SetnxStore<C> {
    key: OwnedKey<C>,
}

#[async_trait]
impl<C: Connection> LeaseStore for SetnxStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, _lease: Duration) -> AcquireResult {
        let key = self.key.of(name);
        let mut redis = self.key.redis();
        let set: bool = redis.set_nx(&key, token.as_str()).await.map_err(BackendError::of)?;
        // Ours already, if the answer to an earlier try was lost.
        let ours = set || self.key.is_ours(&key, token).await?;
        Ok(ours.then_some(Grant::UNFENCED))
    }

    /// Checks that the key still exists. It extends nothing, since there is no lease.
    async fn renew(&self, name: &LockName, token: &Token, _lease: Duration) -> StoreResult<bool> {
        self.key.is_ours(&self.key.of(name), token).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        self.key.release(name, token).await
    }
}
