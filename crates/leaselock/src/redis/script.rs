//! Running scripts.

use ::redis::{ErrorKind, FromRedisValue, RedisResult, ToRedisArgs};
use ::redis_connection::Script;
use futures::TryFutureExt;

use super::{Connection, FENCE_KEPT, WAITER_ALIVE};
use crate::CommandError;
use crate::core::command::bounded;
use crate::store::{AcquireResult, BackendError, Grant, StoreResult, Token};

/// Parts that several scripts have: the server's clock, a new fence, the queue of waiters, the grant to
/// the first of them, and the holds that expire.
pub(super) const CLOCK: &str = include_str!("clock.lua");
pub(super) const MINT: &str = include_str!("mint_fence.lua");
pub(super) const WAITERS: &str = include_str!("waiters.lua");
pub(super) const HAND_ON: &str = include_str!("token_hand_on.lua");
pub(super) const HOLDS: &str = include_str!("expiring_holds.lua");

/// The scripts of a kind.
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
}

impl Scripts {
    /// Those of `token` and `fair`: the owner's token in the key.
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
}

/// Joins the parts of a script. Each part may use the parts before it, and the constants that are
/// defined here.
pub(super) fn script(parts: &[&str]) -> Script {
    let kept_ms = FENCE_KEPT.as_millis();
    let alive_ms = WAITER_ALIVE.as_millis();
    let settled = format!("local FENCE_KEPT_MS, WAITER_ALIVE_MS = '{kept_ms}', '{alive_ms}'\n");
    Script::new(&[&*settled, &parts.concat()].concat())
}

/// Runs a script.
pub(crate) async fn run<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl ToRedisArgs],
    arguments: &[&str],
) -> StoreResult<T> {
    // A clone is a handle to the same connection.
    let answer = script.run(&mut connection.clone(), keys, arguments).await;
    answer.map_err(BackendError::of)
}

/// A flag as scripts read it.
pub(super) fn flag(set: bool) -> &'static str {
    if set { "1" } else { "0" }
}

/// Reads a script's answer to an acquire: nothing, `fence`, or `fence others`.
pub(super) fn grant(answer: Option<String>, token: &Token) -> AcquireResult {
    let Some(answer) = answer else { return Ok(None) };
    let (fence, others) = answer.split_once(' ').unwrap_or((&answer, "0"));
    let fence = fence.parse().map_err(|_| BackendError::new(format!("not a fence: {answer}")))?;
    Ok(Some(Grant::block(fence, token.fences(), others != "0")))
}

/// Waits for the answer to a command that is a single step. After an error either the server refused it, or the outcome
/// is unknown.
pub(super) async fn answered<T>(
    answer: impl Future<Output = RedisResult<T>>,
) -> Result<T, CommandError> {
    bounded(answer.map_err(|error| match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => {
            CommandError::Refused(BackendError::of(error))
        }
        _ => CommandError::NoAnswer(BackendError::of(error)),
    }))
    .await
}
