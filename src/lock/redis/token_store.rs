//! What `token` and `fair` do with Redis.

use std::time::Duration;

use ::redis::Script;

use super::script::{flag, grant};
use super::subscriber::Subscriber;
use super::{Connection, Keys, raise_fence, renew_together, run, script};
use crate::lock::lease::{Grant, LeaseStore, Renewal, StoreFuture, Token, Wakeups};
use crate::lock::{Fence, LockName};

/// A hold in a key, a counter of fences and a queue, changed by scripts.
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
