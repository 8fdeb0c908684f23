//! `setnx-expire` on `redis`: SETNX, then the expiry as a second command. Shown for its fault.
//!
//! **How it works.** `SETNX key owner`, then `PEXPIRE key lease`. A loser who finds a key without an
//! expiry sets one, in case the winner died between the two ([`Repair::ByWaiters`]). Renewal and
//! release compare the owner first, by scripts.
//!
//! **What can go wrong.** A winner that dies between its two commands leaves a key that never
//! expires: without the repair everyone waits for ever, with it for one more lease, and only
//! because somebody happens to wait. `SET NX PX` does both at once and needs no repair. There is no
//! fence against a holder that is paused beyond its lease.
//!
//! **When to use it.** Never. To see why acquire and expiry must be one command.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{AsyncCommands, Script};
use tokio_util::task::TaskTracker;

use super::{Connection, Keys, run, unanswered};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{Capabilities, Fencing, InvalidName, LockName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "setnx-expire",
    backend: "redis",
    summary: "SETNX, then PEXPIRE as a second command, whose lack waiters repair",
    breaks_when: "A winner dies between its two commands: the name is blocked until a waiter repairs it; or the holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::None,
    waiting: Waiting::Polls,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Who sets the expiry that a dead winner left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Every loser that finds none.
    ByWaiters,
    /// Nobody: the bare textbook form.
    Never,
}

/// Makes the lock; the other arguments as for [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    repair: Repair,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = SetnxExpireStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        repair,
        renew: Script::new(include_str!("value_renew.lua")),
        release: Script::new(include_str!("value_release.lua")),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct SetnxExpireStore<C> {
    connection: C,
    keys: Keys,
    repair: Repair,
    renew: Script,
    release: Script,
}

impl<C: Connection> SetnxExpireStore<C> {
    async fn expire(&self, key: &str, lease: Duration) -> ::redis::RedisResult<bool> {
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        self.connection.clone().pexpire(key, lease_ms).await
    }

    /// What a loser does: sets the expiry that the winner left out.
    async fn lose(&self, key: &str, lease: Duration) -> ::redis::RedisResult<()> {
        const NO_EXPIRY: i64 = -1;
        if self.repair == Repair::ByWaiters {
            let left_ms: i64 = self.connection.clone().pttl(key).await?;
            if left_ms == NO_EXPIRY {
                self.expire(key, lease).await?;
            }
        }
        Ok(())
    }
}

impl<C: Connection> LeaseStore for SetnxExpireStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let key = self.keys.lock(name);
            let mut redis = self.connection.clone();
            let set: bool = redis.set_nx(&key, token.as_str()).await.map_err(unanswered)?;
            let owner: Option<String> =
                if set { None } else { redis.get(&key).await.map_err(unanswered)? };
            if !set && owner.as_deref() != Some(token.as_str()) {
                self.lose(&key, lease).await.map_err(unanswered)?;
                return Ok(None);
            }
            // Dying here is the fault. A key that is gone meanwhile was not ours for long.
            let expires = self.expire(&key, lease).await.map_err(unanswered)?;
            Ok(expires.then_some(Grant::UNFENCED))
        })
    }

    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let arguments = [token.as_str(), &lease.as_millis().to_string()];
            run(&self.connection, &self.renew, &[&*self.keys.lock(name)], &arguments).await
        })
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = [&*self.keys.lock(name)];
            run(&self.connection, &self.release, &keys, &[token.as_str()]).await
        })
    }
}
