//! `countdown-latch` on `redis`: waiters go on once a number has been counted down to zero.
//!
//! **How it works.** One key per name with what is left; it is deleted at zero, so an absent key is
//! zero: a waiter that comes late goes on at once, and counting down further stays at zero. Waiters
//! look again after growing pauses.
//!
//! **What can go wrong.** Lost data or a failover look like zero, so waiters go on too early. One
//! that counts down and loses the answer does not know whether it counted; counting again may count
//! twice. A count that nobody brings to zero is forgotten a day after its last change.
//!
//! **When to use it.** To wait for workers of one job, where going on too early is noticed.

use std::time::Duration;

use ::redis::{AsyncCommands, Script};
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::{Connection, Keys, refused_or_unanswered, run_command};
use crate::lock::command::bounded;
use crate::lock::pauses::{Manner, Pauses};
use crate::lock::{
    Capabilities, CommandError, CountdownLatch, Fence, Fencing, InvalidName, LockName, Primitive,
    Waiting,
};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::CountdownLatch,
    kind: "countdown-latch",
    backend: "redis",
    summary: "a number that is deleted when it is counted down to zero",
    breaks_when: "Redis fails over or loses its data: waiters go on too early",
    reentrant: false,
    fair_in_process: false,
    fair_between_processes: false,
    renewed: false,
    lost_signal: false,
    fencing: Fencing::None,
    waiting: Waiting::Polls,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// How long a count is kept without a change.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The highest count: above it a script's floating-point numbers would skip values.
pub const COUNT_MAX: u64 = Fence::MAX.0;

/// How many looks in a row may stay without an answer before a waiter gives up.
const UNANSWERED_MAX: u32 = 3;

/// The latches under one prefix.
pub struct RedisLatch<C> {
    connection: C,
    keys: Keys,
    set: Script,
    count_down: Script,
}

impl<C: Connection> RedisLatch<C> {
    /// Makes the latches; arguments as for [`token::mutex`](super::token::mutex).
    ///
    /// # Errors
    /// When the prefix is not one.
    pub fn new(connection: C, key_prefix: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            connection,
            keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
            set: Script::new(include_str!("latch_set.lua")),
            count_down: Script::new(include_str!("latch_count_down.lua")),
        })
    }

    fn key(&self, name: &LockName) -> String {
        self.keys.key("left", name)
    }

    async fn wait_for_zero(&self, name: &LockName) -> Result<(), CommandError> {
        let mut pauses = Pauses::new(Manner::Backoff);
        let mut unanswered_in_a_row = 0;
        loop {
            match self.count(name).await {
                Ok(0) => return Ok(()),
                Ok(_) => unanswered_in_a_row = 0,
                Err(error) => {
                    unanswered_in_a_row += 1;
                    if unanswered_in_a_row == UNANSWERED_MAX {
                        return Err(error);
                    }
                }
            }
            pauses.pass().await;
        }
    }
}

impl<C: Connection> CountdownLatch for RedisLatch<C> {
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    /// Counts above [`COUNT_MAX`] are refused.
    fn set<'a>(
        &'a self,
        name: &'a LockName,
        count: u64,
    ) -> BoxFuture<'a, Result<bool, CommandError>> {
        Box::pin(bounded(async move {
            if count > COUNT_MAX {
                return Err(CommandError::Refused(format!("{count} is above {COUNT_MAX}")));
            }
            let arguments = [&*count.to_string(), &*KEPT.as_millis().to_string()];
            run_command(&self.connection, &self.set, &[&*self.key(name)], &arguments).await
        }))
    }

    fn count_down<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>> {
        Box::pin(bounded(async move {
            let arguments = [&*KEPT.as_millis().to_string()];
            run_command(&self.connection, &self.count_down, &[&*self.key(name)], &arguments).await
        }))
    }

    fn count<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>> {
        Box::pin(bounded(async move {
            let left: Option<u64> =
                self.connection.clone().get(self.key(name)).await.map_err(refused_or_unanswered)?;
            Ok(left.unwrap_or(0))
        }))
    }

    fn wait<'a>(
        &'a self,
        name: &'a LockName,
        until: Instant,
    ) -> BoxFuture<'a, Result<bool, CommandError>> {
        Box::pin(async move {
            match timeout_at(until, self.wait_for_zero(name)).await {
                Ok(waited) => waited.map(|()| true),
                Err(_) => Ok(false),
            }
        })
    }
}
