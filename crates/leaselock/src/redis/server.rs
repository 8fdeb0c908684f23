//! The server as every kind sees it: a connection for commands, the keys, and the notifications.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::{FromRedisValue, ToRedisArgs, from_redis_value};
use ::redis_connection::{Script, is_unknown_script};

use super::script::{CLOCK, MINT};
use super::subscriber::Subscriber;
use super::tracker::TrackedHold;
use super::{Connection, Keys, run, script, tag};
use crate::store::{BackendError, Renewal, StoreResult, Subscription, Token, WatchedHold};
use crate::{Fence, InvalidName, LockName};

static RAISE_FENCE: LazyLock<Script> =
    LazyLock::new(|| script(&[CLOCK, MINT, include_str!("raise_fence.lua")]));

/// A connection for commands, the keys of one kind, and the subscription of this client, if it has
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

    /// Makes it for the keys of one kind below a prefix.
    pub(super) fn of_kind(
        connection: C,
        subscriber: Option<&Subscriber>,
        key_prefix: &str,
        kind: &str,
    ) -> Result<Self, InvalidName> {
        Ok(Self::new(connection, Keys::of_kind(key_prefix, kind)?, subscriber))
    }

    /// Runs a script.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        arguments: &[&str],
    ) -> StoreResult<T> {
        run(&self.connection, script, keys, arguments).await
    }

    /// Runs a script that renews by the token and the lease.
    pub(super) async fn renew(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        token: &Token,
        lease: Duration,
    ) -> StoreResult<bool> {
        self.run(script, keys, &[token.as_str(), &lease.as_millis().to_string()]).await
    }

    /// Renews several holds in one round trip, by a script that takes `KEYS[1]`, the token and the
    /// lease. One failed renewal does not affect the others.
    pub(super) async fn renew_together(
        &self,
        script: &Script,
        renewals: &[Renewal],
    ) -> StoreResult<Vec<Option<bool>>> {
        let mut pipeline = ::redis::pipe();
        for Renewal { name, token, lease } in renewals {
            let key = self.keys.lock(name);
            let lease_ms = lease.as_millis().to_string();
            pipeline.add_command(script.by_digest(&[key], &[token.as_str(), &lease_ms]));
        }
        let mut redis = self.connection.clone();
        let answers = redis.req_packed_commands(&pipeline, 0, renewals.len()).await;
        let mut renewed = Vec::with_capacity(renewals.len());
        for (answer, renewal) in answers.map_err(BackendError::of)?.into_iter().zip(renewals) {
            renewed.push(match answer.extract_error() {
                Ok(answer) => from_redis_value(answer).ok(),
                Err(error) if is_unknown_script(&error) => {
                    let Renewal { name, token, lease } = renewal;
                    self.renew(script, &[self.keys.lock(name)], token, *lease).await.ok()
                }
                Err(_) => None,
            });
        }
        Ok(renewed)
    }

    /// Raises the fence counter of a name to `at_least`, unless it is higher already.
    pub(super) async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        let counter = [self.keys.fence(name)];
        let raised: u64 = self.run(&RAISE_FENCE, &counter, &[&at_least.to_string()]).await?;
        if raised < at_least.get() {
            let why = format!("the fence was raised to {raised}, below {at_least}");
            return Err(BackendError::new(why));
        }
        Ok(())
    }

    /// The channel on which a token is notified: empty unless it is subscribed.
    pub(super) fn channel_of(&self, name: &LockName, token: &Token) -> String {
        let subscriber = self.subscriber.as_ref();
        subscriber.map(|subscriber| subscriber.channel(token, tag(name))).unwrap_or_default()
    }

    /// See [`LeaseStore::watch_hold`](crate::store::LeaseStore::watch_hold). Without a subscriber
    /// nobody hears anything. The owner is at the beginning of the key's value, or in a field of its hash.
    pub(super) fn watch_hold(&self, hold: WatchedHold, field: Option<&'static str>) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.watch_hold(TrackedHold::new(hold, self.keys.clone(), field));
        }
    }

    /// See [`LeaseStore::listen`](crate::store::LeaseStore::listen).
    pub(super) fn listen(&self, name: &LockName, token: &Token) -> Option<Subscription> {
        self.subscriber.as_ref()?.listen(token, tag(name))
    }

    /// See [`LeaseStore::watch`](crate::store::LeaseStore::watch).
    pub(super) async fn watch(
        &self,
        name: &LockName,
        token: &Token,
    ) -> StoreResult<Option<Subscription>> {
        let Some(subscriber) = &self.subscriber else { return Ok(None) };
        subscriber.watch(token, tag(name)).await.map(Some)
    }
}
