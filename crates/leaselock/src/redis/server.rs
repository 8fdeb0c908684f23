//! The server as every kind sees it: a connection for commands, the keys, and the notifications.

use std::time::Duration;

use ::redis::{FromRedisValue, Script};

use super::subscriber::Subscriber;
use super::{Connection, Keys, raise_fence, run};
use crate::store::{StoreResult, Subscription, Token};
use crate::{Fence, LockName};

/// A connection for commands, the keys of one kind, and the subscription of this process, if it has
/// one.
pub(super) struct Server<C> {
    pub(super) connection: C,
    pub(super) keys: Keys,
    subscriber: Option<Subscriber>,
}

impl<C: Connection> Server<C> {
    pub(super) fn new(connection: C, keys: Keys, subscriber: Option<&Subscriber>) -> Self {
        Self { connection, keys, subscriber: subscriber.cloned() }
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        arguments: &[&str],
    ) -> StoreResult<T> {
        run(&self.connection, script, keys, arguments).await
    }

    /// Runs a script that renews by the token and the lease.
    pub(super) async fn renew(
        &self,
        script: &Script,
        keys: &[impl AsRef<str>],
        token: &Token,
        lease: Duration,
    ) -> StoreResult<bool> {
        self.run(script, keys, &[token.as_str(), &lease.as_millis().to_string()]).await
    }

    pub(super) async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        raise_fence(&self.connection, self.keys.fence(name), at_least).await
    }

    /// The channel on which a token is notified: empty unless it is subscribed.
    pub(super) fn channel_of(&self, token: &Token) -> &str {
        self.subscriber.as_ref().map_or("", |notifications| notifications.channel(token))
    }

    /// The channel on which a token waits for a notification: empty unless it waits and is subscribed.
    pub(super) fn channel_if_waiting(&self, token: &Token) -> &str {
        if token.waits() { self.channel_of(token) } else { "" }
    }

    /// See [`LeaseStore::listen`](crate::store::LeaseStore::listen).
    pub(super) fn listen(&self, token: &Token) -> Option<Subscription> {
        self.subscriber.as_ref()?.listen(token)
    }

    /// See [`LeaseStore::watch`](crate::store::LeaseStore::watch).
    pub(super) async fn watch(&self, token: &Token) -> StoreResult<Option<Subscription>> {
        let Some(subscriber) = &self.subscriber else { return Ok(None) };
        subscriber.watch(token).await.map(Some)
    }
}
