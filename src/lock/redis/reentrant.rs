//! `reentrant` on `redis`: a hash per name, with its owner, its fence and one field per entry.
//!
//! **How it works.** The first acquire makes the hash and mints the fence, as `token` does. Whoever
//! has a guard may [`enter_again`](crate::lock::Guard::enter_again): the guard is the proof of being
//! the owner, instead of a thread, which means nothing to tasks. Each entry has a field of its own
//! rather than a share in a count, so a command that is repeated after a lost answer is no further
//! entry. Each entry is renewed and released by itself; the last release deletes the hash and
//! publishes on the channel of the same name.
//!
//! **What can go wrong.** The same as with `token`: a fail-over, lost data, a jump of the server's
//! clock, a holder paused beyond its lease. All entries share one fence: it orders owners, not the
//! entries of one owner.
//!
//! **When to use it.** When a function that locks calls another one that locks the same name, and
//! the guard cannot be handed down instead.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::{Connection, FENCE_KEPT, Keys, run};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{Capabilities, Fence, Fencing, InvalidName, LockName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "reentrant",
    backend: "redis",
    summary: "a hash of owner and entries, changed by scripts, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    reentrant: true,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Makes the lock; arguments as for [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = ReentrantStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        acquire: Script::new(concat!(
            include_str!("mint_fence.lua"),
            include_str!("reentrant_acquire.lua")
        )),
        renew: Script::new(include_str!("reentrant_renew.lua")),
        release: Script::new(include_str!("reentrant_release.lua")),
        raise_fence: Script::new(include_str!("raise_fence.lua")),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct ReentrantStore<C> {
    connection: C,
    keys: Keys,
    acquire: Script,
    renew: Script,
    release: Script,
    raise_fence: Script,
}

impl<C: Connection> LeaseStore for ReentrantStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let keys = [&*self.keys.lock(name), &*self.keys.fence(name)];
            let lease_ms = lease.as_millis().to_string();
            let kept_ms = FENCE_KEPT.as_millis().to_string();
            let arguments = [token.owner(), token.as_str(), &*lease_ms, &*kept_ms];
            let fence: Option<u64> =
                run(&self.connection, &self.acquire, &keys, &arguments).await?;
            Ok(fence.map(Grant::fenced))
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

    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let arguments = [&*at_least.to_string(), &*FENCE_KEPT.as_millis().to_string()];
            let keys = [&*self.keys.fence(name)];
            let _fence: u64 = run(&self.connection, &self.raise_fence, &keys, &arguments).await?;
            Ok(())
        })
    }
}
