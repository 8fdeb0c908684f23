//! The store that `token`, `fair` and `reentrant` share.

use std::time::Duration;

use ::redis_connection::Script;
use async_trait::async_trait;

use super::Connection;
use super::script::{CLOCK, HAND_ON, MINT, Scripts, WAITERS, flag, grant, script};
use super::server::Server;
use crate::store::{Grant, LeaseStore, Renewal, StoreResult, Subscription, Token, WatchedHold};
use crate::{Fence, LockName};

/// A key with the hold, a counter of fences and a queue, all changed by scripts.
pub(super) struct TokenStore<C> {
    pub(super) server: Server<C>,
    /// Whether a new contender must not overtake the queue.
    pub(super) fair: bool,
    /// Where the key is a hash: the field with the owner.
    pub(super) owner_field: Option<&'static str>,
    pub(super) scripts: Scripts,
}

/// The scripts of the kinds, with one set of keys and arguments.
impl Scripts {
    /// The owner's token in the key.
    pub(super) fn of_token() -> Self {
        let free = include_str!("token_acquire_free.lua");
        let alone = include_str!("token_release_alone.lua");
        let [acquire, release] =
            [include_str!("token_acquire.lua"), include_str!("token_release.lua")];
        Self {
            acquire: script(&[CLOCK, free, MINT, WAITERS, acquire]),
            renew: Script::new(include_str!("token_renew.lua")),
            release: script(&[alone, CLOCK, MINT, WAITERS, HAND_ON, release]),
        }
    }

    /// The owner and its entries in a hash.
    pub(super) fn of_reentrant() -> Self {
        let [acquire, release] =
            [include_str!("reentrant_acquire.lua"), include_str!("reentrant_release.lua")];
        Self {
            acquire: script(&[CLOCK, MINT, WAITERS, acquire]),
            renew: Script::new(include_str!("reentrant_renew.lua")),
            release: script(&[CLOCK, MINT, WAITERS, release]),
        }
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for TokenStore<C> {
    async fn acquire(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<Option<Grant>> {
        let channel = &*self.server.channel_of(name, token);
        let lease_ms = lease.as_millis().to_string();
        let fences = token.fences().to_string();
        // A contender without a subscription enters the queue only where the queue is the order.
        let queues = token.waits() && (self.fair || !channel.is_empty());
        let may_overtake = !self.fair && !token.is_retry();
        let [may_overtake, queues, fair] = [may_overtake, queues, self.fair].map(flag);
        let me = token.as_str();
        let owner = token.owner();
        let attempt = token.attempt().to_string();
        let arguments =
            [me, &lease_ms, &fences, channel, may_overtake, queues, fair, owner, &attempt];
        let keys = self.server.keys.all(name);
        grant(self.server.run(&self.scripts.acquire, &keys, &arguments).await?, token)
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let keys = [self.server.keys.lock(name)];
        self.server.renew(&self.scripts.renew, &keys, token, lease).await
    }

    fn renews_together(&self) -> bool {
        true
    }

    async fn renew_together(&self, renewals: &[Renewal]) -> StoreResult<Vec<Option<bool>>> {
        self.server.renew_together(&self.scripts.renew, renewals).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let keys = self.server.keys.all(name);
        self.server.run(&self.scripts.release, &keys, &[token.as_str()]).await
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        self.server.raise_fence(name, at_least).await
    }

    async fn watch(&self, name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        self.server.watch(name, token).await
    }

    fn listen(&self, name: &LockName, token: &Token) -> Option<Subscription> {
        self.server.listen(name, token)
    }

    fn watch_hold(&self, hold: WatchedHold) {
        self.server.watch_hold(hold, self.owner_field);
    }

    fn queues(&self) -> bool {
        self.fair
    }
}
