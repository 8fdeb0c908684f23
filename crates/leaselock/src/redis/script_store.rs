//! The store of every kind whose operations are scripts.

use std::sync::LazyLock;
use std::time::Duration;

use ::redis::from_redis_value;
use ::redis_connection::{Script, is_unknown_script};
use async_trait::async_trait;

use super::script::{CLOCK, MINT, Scripts, flag, grant};
use super::server::Server;
use super::tracker::TrackedHold;
use super::{Connection, Keys, run, script};
use crate::core::backoff::WaitStrategy;
use crate::store::{
    AcquireResult, BackendError, Grant, LeaseStore, Renewal, StoreResult, Subscription, Token,
    WatchedHold,
};
use crate::{Fence, LockName};

static RAISE_FENCE: LazyLock<Script> =
    LazyLock::new(|| script(&[CLOCK, MINT, include_str!("raise_fence.lua")]));

/// The operations of a lock by the scripts of its kind.
pub(super) struct ScriptStore<C> {
    pub(super) server: Server<C>,
    pub(super) scripts: Scripts,
    pub(super) form: Form,
}

/// Which keys the scripts of a kind have, and what they take and answer.
pub(super) enum Form {
    /// A key with the hold, a counter of fences and a queue.
    Token {
        /// Whether a new contender must not overtake the queue.
        fair: bool,
        /// Where the key is a hash: the field with the owner.
        owner_field: Option<&'static str>,
    },
    /// A group of names (one name, or several with one hash tag), each with the keys of `Token`.
    Group(WaitStrategy),
    /// The holders of permits, of which there is this number, and a queue.
    Permits(String),
    /// The side of the readers, who share a key, and the queue of both sides.
    Readers,
    /// The side of the writers.
    Writers,
}

impl Form {
    /// The keys of the scripts.
    fn keys(&self, keys: &Keys, name: &LockName) -> Vec<String> {
        match self {
            Self::Token { .. } => keys.all(name).into(),
            Self::Group(_) => name.parts().flat_map(|name| keys.all(&name)).collect(),
            Self::Permits(_) => ["holders", "queue"].map(|word| keys.key(word, name)).into(),
            Self::Readers | Self::Writers => {
                let [readers, queue, last_writer] =
                    ["readers", "queue", "last-writer"].map(|word| keys.key(word, name));
                vec![keys.lock(name), readers, queue, last_writer, keys.fence(name)]
            }
        }
    }

    /// The keys of the script of the renewal: those of the holds.
    fn held_keys(&self, keys: &Keys, name: &LockName) -> Vec<String> {
        match self {
            Self::Token { .. } | Self::Writers => vec![keys.lock(name)],
            Self::Group(_) => self.keys(keys, name),
            Self::Permits(_) => vec![keys.key("holders", name)],
            Self::Readers => vec![keys.key("readers", name)],
        }
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for ScriptStore<C> {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let me = token.as_str();
        let lease_ms = &*lease.as_millis().to_string();
        let attempt = &*token.attempt().to_string();
        let fences = &*token.fences().to_string();
        let channel = &*self.server.channel_of(name, token);
        let waiting_channel = if token.waits() { channel } else { "" };
        let arguments = match &self.form {
            Form::Token { fair, .. } => {
                let fair = *fair;
                let may_overtake = flag(!fair && !token.is_retry());
                // A contender without a subscription enters the queue only where the queue is the order.
                let queues = flag(token.waits() && (fair || !channel.is_empty()));
                let owner = token.owner();
                let fair = flag(fair);
                vec![me, lease_ms, fences, channel, may_overtake, queues, fair, owner, attempt]
            }
            Form::Group(_) => vec![me, lease_ms, waiting_channel, attempt],
            Form::Permits(permits_max) => {
                vec![me, permits_max.as_str(), lease_ms, waiting_channel, attempt]
            }
            Form::Readers | Form::Writers => {
                vec![me, lease_ms, waiting_channel, flag(token.waits()), attempt]
            }
        };
        let keys = self.form.keys(&self.server.keys, name);
        let answer: Option<String> =
            run(&self.server.connection, &self.scripts.acquire, &keys, &arguments).await?;
        match self.form {
            Form::Token { .. } | Form::Group(_) | Form::Writers => grant(answer, token),
            Form::Permits(_) | Form::Readers => {
                Ok(answer.filter(|answer| answer != "0").map(|_| Grant::UNFENCED))
            }
        }
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let keys = self.form.held_keys(&self.server.keys, name);
        let lease_ms = lease.as_millis().to_string();
        let arguments = [token.as_str(), &lease_ms];
        run(&self.server.connection, &self.scripts.renew, &keys, &arguments).await
    }

    fn renews_together(&self) -> bool {
        matches!(self.form, Form::Token { .. })
    }

    /// Needs one round trip. One failed renewal does not affect the others.
    async fn renew_together(&self, renewals: &[Renewal]) -> StoreResult<Vec<Option<bool>>> {
        let Server { connection, keys, .. } = &self.server;
        let mut pipeline = ::redis::pipe();
        for Renewal { name, token, lease } in renewals {
            let lease_ms = lease.as_millis().to_string();
            let arguments = [token.as_str(), &lease_ms];
            pipeline.add_command(self.scripts.renew.by_digest(&[keys.lock(name)], &arguments));
        }
        let mut redis = connection.clone();
        let answers = redis.req_packed_commands(&pipeline, 0, renewals.len()).await;
        let mut renewed = Vec::with_capacity(renewals.len());
        for (answer, renewal) in answers.map_err(BackendError::of)?.into_iter().zip(renewals) {
            let Renewal { name, token, lease } = renewal;
            renewed.push(match answer.extract_error() {
                Ok(answer) => from_redis_value(answer).ok(),
                Err(error) if is_unknown_script(&error) => {
                    self.renew(name, token, *lease).await.ok()
                }
                Err(_) => None,
            });
        }
        Ok(renewed)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let keys = self.form.keys(&self.server.keys, name);
        let mut arguments = vec![token.as_str()];
        if let Form::Permits(permits_max) = &self.form {
            arguments.push(permits_max);
        }
        run(&self.server.connection, &self.scripts.release, &keys, &arguments).await
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        if let Form::Permits(_) = self.form {
            return Err(BackendError::new("this kind has no fences"));
        }
        // All names of a group share one counter.
        let first = name.parts().next().expect("a group has a name");
        let counter = [self.server.keys.fence(&first)];
        let wanted = at_least.to_string();
        let raised: u64 = run(&self.server.connection, &RAISE_FENCE, &counter, &[&*wanted]).await?;
        if raised < at_least.get() {
            let why = format!("the fence was raised to {raised}, below {at_least}");
            return Err(BackendError::new(why));
        }
        Ok(())
    }

    async fn watch(&self, name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        self.server.watch(name, token).await
    }

    fn listen(&self, name: &LockName, token: &Token) -> Option<Subscription> {
        self.server.listen(name, token)
    }

    fn watch_hold(&self, hold: WatchedHold) {
        let field = match self.form {
            Form::Token { owner_field, .. } => owner_field,
            Form::Group(_) | Form::Writers => None,
            // Several holders share a key, which each of them changes.
            Form::Permits(_) | Form::Readers => return,
        };
        // Without a subscriber nobody hears anything.
        if let Some(subscriber) = &self.server.subscriber {
            subscriber.watch_hold(TrackedHold::new(hold, self.server.keys.clone(), field));
        }
    }

    fn wait_strategy(&self) -> WaitStrategy {
        match self.form {
            Form::Group(strategy) => strategy,
            _ => WaitStrategy::Notified,
        }
    }

    fn shared(&self) -> bool {
        matches!(self.form, Form::Permits(_) | Form::Readers)
    }

    fn queues(&self) -> bool {
        matches!(self.form, Form::Token { fair: true, .. } | Form::Readers | Form::Writers)
    }
}
