//! `countdown-latch` on `redis`: waiters go on when a number has been counted down to zero.
//!
//! **How it works.** One key per name holds the number. It is deleted at zero, so an absent key
//! means zero: a waiter that comes late goes on at once, and further counting stays at zero. A
//! waiter that finds a higher number subscribes; the step to zero notifies all waiters at once.
//!
//! **What can go wrong.** Lost data or a failover look like zero, so waiters go on too early. A
//! program that counts down and loses the answer does not know whether it counted; counting again
//! may count twice. A number that never reaches zero is forgotten a day after its last change.
//!
//! **When to use it.** Use it to wait for the workers of one job, where going on too early is
//! noticed.

use std::time::Duration;

use ::redis::{AsyncCommands, FromRedisValue};
use ::redis_connection::Script;
use tokio::time::{Instant, timeout_at};

use super::Connection;
use super::script::{CLOCK, answered, script};
use super::server::Server;
use super::subscriber::Subscriber;
use crate::core::backoff::{Backoff, WaitStrategy};
use crate::store::{BackendError, Token, ask};
use crate::{
    Capabilities, CommandError, Fence, Fencing, InvalidName, LEASE_MAX, LockName, Primitive,
    Waiting,
};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::CountdownLatch,
    kind: "countdown-latch",
    backend: "redis",
    summary: "a number that is deleted when it is counted down to zero",
    breaks_when: "Redis fails over or loses its data: waiters go on too early",
    fencing: Fencing::None,
    waiting: Waiting::Notified,
    expires: true,
    ..Capabilities::NUMBER
};

/// How long a number is kept without a change.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The highest count: above it a script's floating-point numbers would skip values.
pub const COUNT_MAX: u64 = Fence::MAX.0;

/// How many attempts in a row may stay without an answer before a waiter gives up.
const NO_ANSWERS_MAX: u32 = 3;

/// The countdown latches under one prefix: waiters go on once a number has been counted down to zero. The number of a
/// name only falls. A name without a number counts as zero, so a waiter that comes late goes on at once.
pub struct RedisLatch<C> {
    server: Server<C>,
    set: Script,
    count_down: Script,
    look: Script,
}

impl<C: Connection> RedisLatch<C> {
    /// Makes the latches, with the arguments of [`token::notified`](super::token::notified).
    ///
    /// # Errors
    /// When the prefix is not valid.
    pub fn new(
        connection: C,
        subscriber: &Subscriber,
        key_prefix: &str,
    ) -> Result<Self, InvalidName> {
        Ok(Self {
            server: Server::of_kind(connection, Some(subscriber), key_prefix, CAPABILITIES.kind)?,
            set: Script::new(include_str!("latch_set.lua")),
            count_down: Script::new(include_str!("latch_count_down.lua")),
            look: script(&[CLOCK, include_str!("latch_look.lua")]),
        })
    }

    /// Sets the number to `count`. While an earlier number is not down to zero, this changes nothing
    /// and returns `false`. Setting zero is allowed and changes nothing.
    ///
    /// # Errors
    /// See [`CommandError`]; counts above [`COUNT_MAX`] are refused.
    pub async fn set(&self, name: &LockName, count: u64) -> Result<bool, CommandError> {
        if count > COUNT_MAX {
            let why = format!("{count} is above {COUNT_MAX}");
            return Err(CommandError::Refused(BackendError::new(why)));
        }
        let arguments = [&*count.to_string(), &*KEPT.as_millis().to_string()];
        self.command(&self.set, name, &arguments).await
    }

    /// Counts down by one and returns the rest. At zero it stays at zero.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn count_down(&self, name: &LockName) -> Result<u64, CommandError> {
        self.command(&self.count_down, name, &[&*KEPT.as_millis().to_string()]).await
    }

    /// The present number.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn count(&self, name: &LockName) -> Result<u64, CommandError> {
        let [left, _] = self.keys(name);
        let left: Option<u64> = answered(self.server.connection.clone().get(left)).await?;
        Ok(left.unwrap_or(0))
    }

    /// Waits for zero: `true` once it is reached, `false` if it is not by `until`.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn wait(&self, name: &LockName, until: Instant) -> Result<bool, CommandError> {
        match timeout_at(until, self.wait_for_zero(name)).await {
            Ok(waited) => waited.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// The keys of the number and of the waiters.
    fn keys(&self, name: &LockName) -> [String; 2] {
        ["left", "waiting"].map(|word| self.server.keys.key(word, name))
    }

    async fn command<T: FromRedisValue>(
        &self,
        script: &Script,
        name: &LockName,
        arguments: &[&str],
    ) -> Result<T, CommandError> {
        let keys = self.keys(name);
        answered(script.run(&mut self.server.connection.clone(), &keys, arguments)).await
    }

    async fn wait_for_zero(&self, name: &LockName) -> Result<(), CommandError> {
        let token = Token::mint(true, 1);
        let mut backoff = Backoff::new(WaitStrategy::Notified);
        let mut notifications = self.server.listen(name, &token);
        let mut no_answers_in_a_row = 0;
        loop {
            let channel = &self.server.channel_of(name, &token);
            match self.command(&self.look, name, &[token.as_str(), channel]).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    no_answers_in_a_row = 0;
                    // One more attempt sees a zero that came before the subscription.
                    if notifications.is_none() {
                        notifications =
                            ask(LEASE_MAX, self.server.watch(name, &token)).await.ok().flatten();
                        if notifications.is_some() {
                            continue;
                        }
                    }
                }
                Err(error) => {
                    notifications = None;
                    no_answers_in_a_row += 1;
                    if no_answers_in_a_row == NO_ANSWERS_MAX {
                        return Err(error);
                    }
                }
            }
            backoff.wait_or_be_notified(&mut notifications, LEASE_MAX).await;
            if notifications
                .as_mut()
                .is_some_and(|notifications| notifications.granted(token.attempt()).is_some())
            {
                return Ok(());
            }
        }
    }
}
