//! The server as every kind sees it: a connection for commands, the keys, and the notifications.

use super::subscriber::Subscriber;
use super::{Connection, Keys, tag};
use crate::store::{StoreResult, Subscription, Token};
use crate::{InvalidName, LockName};

/// A connection for commands, the keys of one kind, and the subscription of this client, if it has
/// one.
pub(super) struct Server<C> {
    pub(super) connection: C,
    pub(super) keys: Keys,
    pub(super) subscriber: Option<Subscriber>,
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

    /// The channel on which a token is notified: empty unless it is subscribed.
    pub(super) fn channel_of(&self, name: &LockName, token: &Token) -> String {
        let subscriber = self.subscriber.as_ref();
        subscriber.map(|subscriber| subscriber.channel(token, tag(name))).unwrap_or_default()
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
