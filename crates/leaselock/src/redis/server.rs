//! The server as every kind sees it: a connection for commands, the keys, and the notifications.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{FromRedisValue, Script, ServerErrorKind};

use super::subscriber::Subscriber;
use super::{Connection, Keys, backend_error, run, script};
use crate::store::{BackendError, Renewal, StoreResult, Subscription, Token};
use crate::{Fence, LockName};

static RAISE_FENCE: LazyLock<Script> = LazyLock::new(|| script(&[include_str!("raise_fence.lua")]));

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

    /// Renews several holds in one round trip, by a script that takes `KEYS[1]`, the token and the
    /// lease.
    pub(super) async fn renew_together(
        &self,
        script: &Script,
        renewals: &[Renewal],
    ) -> StoreResult<Vec<bool>> {
        let mut pipeline = ::redis::pipe();
        for Renewal { name, token, lease } in renewals {
            let key = self.keys.lock(name);
            let call = pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(key);
            call.arg(token.as_str()).arg(lease.as_millis().to_string());
        }
        let mut redis = self.connection.clone();
        match pipeline.query_async(&mut redis).await {
            Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
                script.load_async(&mut redis).await.map_err(backend_error)?;
                pipeline.query_async(&mut redis).await.map_err(backend_error)
            }
            answer => answer.map_err(backend_error),
        }
    }

    /// Raises the fence counter of a name to `at_least`, unless it is higher already.
    pub(super) async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        let counter = [self.keys.fence(name)];
        let raised: u64 = self.run(&RAISE_FENCE, &counter, &[&at_least.to_string()]).await?;
        if raised < at_least.get() {
            let why = format!("the fence was raised to {raised}, below {at_least}");
            return Err(BackendError(why));
        }
        Ok(())
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
