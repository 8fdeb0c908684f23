//! `token` on `redis`: one key per name that holds a random owner token.
//!
//! **How it works.** Acquire is one script: if the key is absent, mint a fence and `SET` the key to
//! `token:fence` with `NX PX`; if it holds our own token, the earlier answer was lost and the answer
//! is repeated. Release and renewal compare the token first, so nobody can free or prolong what
//! belongs to someone else. Uncontended it costs one round trip each way.
//!
//! **How it waits.** With a [`Subscriber`], who is refused stands in a queue by arrival, and the
//! release hands the lock on: the same script grants it to the first in the queue and tells its
//! process. A waiter that has gone does not listen, so it is skipped; one that is stuck costs its
//! lease, like a holder that is. Who comes while the lock is free need not queue. Without a
//! subscriber each process polls.
//!
//! **What the fence is.** `max(last + 1, the server's clock in microseconds)`. The counter alone
//! would start again from 1 after the server lost its data, and everything that checks fences would
//! refuse every writer from then on; seeded from the clock it goes on rising. It stays below 2^53,
//! the last exact whole number of a Lua script, until the year 2255. If the clock was set back
//! while the data was lost, `raise_fence` repairs it.
//!
//! **What can go wrong.** A fail-over to a replica that had not heard of the hold, lost data, a
//! server whose clock jumps ahead, a holder that was paused beyond its lease: two holders at once.
//! The fence is there for these. A command that a broken link delivers late can leave a hold that
//! nobody owns: it blocks the name for one lease at most and never gets a second holder.
//!
//! **When to use it.** When Redis is there anyway and the guarded store checks the fence.

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
    kind: "token",
    backend: "redis",
    summary: "SET NX PX with a random owner token, compare-and-delete, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is \
                  paused beyond its lease",
    reentrant: false,
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

/// Makes the lock. `key_prefix` stands before all its keys: visible ASCII without braces, or empty.
/// Its background tasks run on `tasks` and end when the lock and its last guard are gone.
/// Needs a tokio runtime. Nothing is sent yet. Without a subscriber it polls: see [`notified`].
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = TokenStore::new(connection, Keys::new(key_prefix)?, None, false);
    Ok(LeasedMutex::start(Arc::new(store), &POLLING, tasks))
}

/// Makes the lock whose waiters are told by `subscriber` when it is theirs. All processes that use
/// the same names should have one; those that have none still exclude each other, and poll.
///
/// # Errors
/// When the prefix is not one.
pub fn notified<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let keys = Keys::new(key_prefix)?;
    let store = TokenStore::new(connection, keys, Some(subscriber.clone()), false);
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

/// What `token` and `fair` do with Redis.
pub(super) struct TokenStore<C> {
    connection: C,
    keys: Keys,
    subscriber: Option<Subscriber>,
    /// Whether nobody may overtake those who wait.
    fair: bool,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl<C: Connection> TokenStore<C> {
    pub(super) fn new(
        connection: C,
        keys: Keys,
        subscriber: Option<Subscriber>,
        fair: bool,
    ) -> Self {
        Self {
            connection,
            keys,
            subscriber,
            fair,
            acquire: script(&[
                include_str!("clock.lua"),
                include_str!("token_acquire_free.lua"),
                include_str!("mint_fence.lua"),
                include_str!("waiters.lua"),
                include_str!("token_acquire.lua"),
            ]),
            renew: Script::new(include_str!("token_renew.lua")),
            release: script(&[
                include_str!("token_release_alone.lua"),
                include_str!("clock.lua"),
                include_str!("mint_fence.lua"),
                include_str!("waiters.lua"),
                include_str!("token_release.lua"),
            ]),
        }
    }
}

impl<C: Connection> LeaseStore for TokenStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let channel = self.subscriber.as_ref().map_or("", |told| told.channel(token));
            let (lease_ms, fences) = (lease.as_millis().to_string(), token.fences().to_string());
            // Without a message a waiter is of no use in the queue, unless the queue is the order.
            let queues = token.waits() && (self.fair || !channel.is_empty());
            let may_overtake = !self.fair && !token.looks_again;
            let [may_overtake, queues, fair] = [may_overtake, queues, self.fair].map(flag);
            let arguments =
                [token.as_str(), &lease_ms, &fences, channel, may_overtake, queues, fair];
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

    fn queues(&self) -> bool {
        self.fair
    }
}
