//! `getset` on `redis`: the value is the time at which the hold expires. Shown for its faults.
//!
//! **How it works.** `SETNX key <expiry by my clock>`. A contender that is refused reads the value.
//! If there is none, the name was freed: SETNX again. If the time has passed, the holder is gone:
//! `GETSET` writes the contender's own expiry. The contender has won if `GETSET` returned the value
//! that the contender had read, or no value. Release deletes the key if its value is still the one
//! that was written. There is no owner, no renewal and no fence.
//!
//! **What can go wrong.**
//! * *Overwritten winner*: of two contenders that see the same expired value, the second one's
//!   GETSET loses but has overwritten the winner's value. The winner no longer recognises its own
//!   lock and does not delete it, and everybody waits until the loser's expiry.
//! * Clocks must agree: for a process whose clock runs ahead by more than a lease, every hold has
//!   expired, so there are two holders.
//! * Nothing prolongs a hold: work that takes longer than the lease is not protected any more.
//!
//! **When to use it.** Never. It shows why the value has to be an owner, and why the clock has to
//! be the clock of the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{AsyncCommands, RedisResult};
use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use crate::redis::{Compare, Connection, Keys};
use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::threads::locked;
use crate::{Capabilities, InvalidName, LeasedMutex, LockName};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "getset",
    summary: "SETNX with a time as value, GETSET once it has passed",
    breaks_when: "Clocks disagree, a loser covers the winner's time, or the work takes longer than the lease",
    renewed: false,
    ..crate::redis::MUTEX
};

/// The wall clock that expiries are computed with, in milliseconds since 1970.
pub type ClockMs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Makes the lock; the other arguments are those of [`token::mutex`](crate::redis::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    now_ms: ClockMs,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = GetsetStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        now_ms,
        compare: Compare::default(),
        written: Mutex::default(),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct GetsetStore<C> {
    connection: C,
    keys: Keys,
    now_ms: ClockMs,
    compare: Compare,
    /// The value that each hold of this process wrote, by its token.
    written: Mutex<HashMap<String, u64>>,
}

impl<C: Connection> GetsetStore<C> {
    /// One try of the textbook's loop; returns the value that was written if it was won.
    async fn try_once(&self, key: &str, lease: Duration) -> RedisResult<Option<u64>> {
        let mut redis = self.connection.clone();
        let now_ms = (self.now_ms)();
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let mine = now_ms.saturating_add(lease_ms);
        if redis.set_nx(key, mine).await? {
            return Ok(Some(mine));
        }
        let seen: Option<u64> = redis.get(key).await?;
        // Freed meanwhile (the next try sets it), or still held.
        if seen.is_none_or(|until_ms| until_ms > now_ms) {
            return Ok(None);
        }
        // From here on the holder's value is covered, whether this wins or not.
        let covered: Option<u64> = redis.getset(key, mine).await?;
        Ok((covered.is_none() || covered == seen).then_some(mine))
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for GetsetStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let won = self.try_once(&self.keys.lock(name), lease).await.map_err(BackendError::of)?;
        Ok(won.map(|value| {
            locked(&self.written).insert(token.as_str().to_owned(), value);
            Grant::UNFENCED
        }))
    }

    /// There is no renewal: the hold ends with its lease, and `lost` tells it.
    async fn renew(&self, _name: &LockName, _token: &Token, _lease: Duration) -> StoreResult<bool> {
        Err(BackendError::new("this kind is not renewed"))
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let Some(value) = locked(&self.written).get(token.as_str()).copied() else {
            return Ok(false);
        };
        let key = self.keys.lock(name);
        let value = value.to_string();
        let freed = self.compare.delete(&self.connection, &key, &value).await;
        let freed = freed.map_err(BackendError::of)?;
        locked(&self.written).remove(token.as_str());
        Ok(freed)
    }
}
