//! `fair` on `redis`: `token` with a queue in front of it, first come first served across processes.
//!
//! **How it works.** Each process has one contender per name. Its first try puts its token into a
//! sorted set by the *server's* clock; only the head of the set may have the lock. Each try also says
//! "still here"; a head that was not seen for [`ALIVE`] is taken out by whoever comes next, so a dead
//! waiter costs that much and no more. Giving up takes the token out at once.
//!
//! **What can go wrong.** What can go wrong with `token`; besides, a waiter that is paused for longer
//! than [`ALIVE`] loses its place, though never more than that.
//!
//! **When to use it.** When processes of different speed must have the same share. It costs more
//! per try than `token`, and a hand-over waits for the head's next look.

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
    kind: "fair",
    backend: "redis",
    summary: "a queue by the server's clock in front of an owner token, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: true,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// For how long a waiter that is not seen keeps its place: what a dead one costs the others.
/// Far above the longest pause between two tries and the longest command.
pub const ALIVE: Duration = Duration::from_millis(1_500);

/// Makes the lock; arguments as for [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = FairStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        acquire: Script::new(concat!(
            include_str!("mint_fence.lua"),
            include_str!("fair_acquire.lua")
        )),
        renew: Script::new(include_str!("token_renew.lua")),
        release: Script::new(include_str!("fair_release.lua")),
        raise_fence: Script::new(include_str!("raise_fence.lua")),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct FairStore<C> {
    connection: C,
    keys: Keys,
    acquire: Script,
    renew: Script,
    release: Script,
    raise_fence: Script,
}

impl<C: Connection> LeaseStore for FairStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let (queue, seen) = (self.keys.key("queue", name), self.keys.key("seen", name));
            let keys = [&*self.keys.lock(name), &*self.keys.fence(name), &*queue, &*seen];
            let numbers = [lease, FENCE_KEPT, ALIVE].map(|span| span.as_millis().to_string());
            let [lease_ms, kept_ms, alive_ms] = &numbers;
            let arguments = [token.as_str(), &**lease_ms, &**kept_ms, &**alive_ms];
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
            let (queue, seen) = (self.keys.key("queue", name), self.keys.key("seen", name));
            let keys = [&*self.keys.lock(name), &*queue, &*seen];
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

    fn queues(&self) -> bool {
        true
    }
}
