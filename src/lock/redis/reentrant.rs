//! `reentrant` on `redis`: a hash per name, with its owner, its fence and one field per entry.
//!
//! **How it works.** The first acquire makes the hash and mints the fence, as `token` does. Whoever
//! has a guard may [`enter_again`](crate::lock::Guard::enter_again): the guard is the proof of being
//! the owner, instead of a thread, which means nothing to tasks. Each entry has a field of its own
//! rather than a share in a count, so a command that is repeated after a lost answer is no further
//! entry. Each entry is renewed and released by itself; the last release deletes the hash, or hands
//! the lock on to the process that waits longest, as `token` does.
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

use super::script::{flag, grant};
use super::subscriber::Subscriber;
use super::{Connection, Keys, raise_fence, renew_together, run, script};
use crate::lock::lease::{Grant, LeaseStore, Renewal, StoreFuture, Token, Wakeups};
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
    waiting: Waiting::Notified,
    hands_over: true,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// The same without a [`Subscriber`].
static POLLING: Capabilities =
    Capabilities { waiting: Waiting::Polls, hands_over: false, ..CAPABILITIES };

/// Makes the lock that polls; arguments as for [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = ReentrantStore::new(connection, key_prefix, None)?;
    Ok(LeasedMutex::start(Arc::new(store), &POLLING, tasks))
}

/// Makes the lock whose waiters are told when it is theirs; arguments as for
/// [`token::notified`](super::token::notified).
///
/// # Errors
/// When the prefix is not one.
pub fn notified<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = ReentrantStore::new(connection, key_prefix, Some(subscriber.clone()))?;
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct ReentrantStore<C> {
    connection: C,
    keys: Keys,
    subscriber: Option<Subscriber>,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl<C: Connection> ReentrantStore<C> {
    fn new(
        connection: C,
        key_prefix: &str,
        subscriber: Option<Subscriber>,
    ) -> Result<Self, InvalidName> {
        let with_heads = |code| {
            let (clock, mint) = (include_str!("clock.lua"), include_str!("mint_fence.lua"));
            script(&[clock, mint, include_str!("waiters.lua"), code])
        };
        Ok(Self {
            connection,
            keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
            subscriber,
            acquire: with_heads(include_str!("reentrant_acquire.lua")),
            renew: Script::new(include_str!("reentrant_renew.lua")),
            release: with_heads(include_str!("reentrant_release.lua")),
        })
    }
}

impl<C: Connection> LeaseStore for ReentrantStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let channel = self.subscriber.as_ref().map_or("", |told| told.channel(token));
            let (lease_ms, fences) = (lease.as_millis().to_string(), token.fences().to_string());
            // Without a message a waiter is of no use in the queue.
            let queues = flag(token.waits() && !channel.is_empty());
            let arguments = [token.owner(), token.as_str(), &lease_ms, &fences, channel, queues];
            let keys = self.keys.all(name);
            let granted = run(&self.connection, &self.acquire, &keys, &arguments).await?;
            grant(granted, token)
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
            run(&self.connection, &self.renew, &[self.keys.lock(name)], &arguments).await
        })
    }

    fn renews_together(&self) -> bool {
        true
    }

    fn renew_together<'a>(&'a self, renewals: &'a [Renewal]) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(renew_together(&self.connection, &self.renew, &self.keys, renewals))
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            run(&self.connection, &self.release, &self.keys.all(name), &[token.as_str()]).await
        })
    }

    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(raise_fence(&self.connection, self.keys.fence(name), at_least))
    }

    fn watch<'a>(
        &'a self,
        _name: &'a LockName,
        token: &'a Token,
    ) -> StoreFuture<'a, Option<Box<dyn Wakeups>>> {
        Box::pin(async move {
            let Some(subscriber) = &self.subscriber else { return Ok(None) };
            subscriber.watch(token).await.map(Some)
        })
    }

    fn listen(&self, _name: &LockName, token: &Token) -> Option<Box<dyn Wakeups>> {
        self.subscriber.as_ref()?.listen(token)
    }
}
