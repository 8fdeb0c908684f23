//! `counter` on `redis`: a shared counter with INCRBY, GET and compare-and-set.
//!
//! **How it works.** One key per name holds a decimal number. Redis runs one command at a time, so
//! no update is lost. `SET key new IFEQ old` compares the numbers as text, or a script does, on servers
//! without `IFEQ` and if `old` is 0, which an absent number is as well. This is exact for every 64-bit
//! number; the floating-point numbers of a script are not exact for all of them.
//!
//! **What can go wrong.** When Redis dies, it loses what it had not yet written to disk or
//! replicated, so a number can go back. A change whose answer was lost may have been made. The key
//! lives until somebody deletes it: a number is data, not a hold.
//!
//! **When to use it.** Use it for numbers that may be a little wrong after a crash: statistics,
//! hints.

use ::redis::AsyncCommands;
use async_trait::async_trait;

use super::script::answered;
use super::{Compare, Connection, Keys};
use crate::{Capabilities, CommandError, Fencing, InvalidName, LockName, SharedCounter, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "counter",
    backend: "redis",
    summary: "INCRBY, GET and compare-and-set on one key",
    breaks_when: "Redis fails over or loses its data: the number goes back",
    fencing: Fencing::None,
    waiting: Waiting::Polls,
    ..Capabilities::NUMBER
};

/// The counters under one prefix.
pub struct RedisCounter<C> {
    connection: C,
    keys: Keys,
    compare: Compare,
}

impl<C: Connection> RedisCounter<C> {
    /// Makes the counters, with the arguments of [`token::mutex`](super::token::mutex).
    ///
    /// # Errors
    /// When the prefix is not valid.
    pub fn new(connection: C, key_prefix: &str) -> Result<Self, InvalidName> {
        Ok(Self {
            connection,
            keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
            compare: Compare::default(),
        })
    }

    fn key(&self, name: &LockName) -> String {
        self.keys.key("number", name)
    }
}

#[async_trait]
impl<C: Connection> SharedCounter for RedisCounter<C> {
    async fn add(&self, name: &LockName, delta: i64) -> Result<i64, CommandError> {
        answered(self.connection.clone().incr(self.key(name), delta)).await
    }

    async fn get(&self, name: &LockName) -> Result<i64, CommandError> {
        let number: Option<i64> = answered(self.connection.clone().get(self.key(name))).await?;
        Ok(number.unwrap_or(0))
    }

    async fn compare_and_set(
        &self,
        name: &LockName,
        expected: i64,
        new: i64,
    ) -> Result<bool, CommandError> {
        answered(self.compare.set(&self.connection, &self.key(name), expected, new)).await
    }
}
