//! Running scripts.

use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, Script, ServerErrorKind};

use super::{Connection, FENCE_KEPT, WAITER_ALIVE};
use crate::CommandError;
use crate::store::{BackendError, Grant, StoreResult, Token};

/// The size of most calls, for their buffer.
const CALL_BYTES: usize = 512;

/// Joins the parts of a script. Each part may use the parts before it, and the constants that are
/// defined here.
pub(super) fn script(parts: &[&str]) -> Script {
    let (kept_ms, alive_ms) = (FENCE_KEPT.as_millis(), WAITER_ALIVE.as_millis());
    let settled = format!("local FENCE_KEPT_MS, WAITER_ALIVE_MS = '{kept_ms}', '{alive_ms}'\n");
    Script::new(&[&*settled, &parts.concat()].concat())
}

/// Runs a script by its digest; loads it first if the server does not know it.
pub(crate) async fn run<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl AsRef<str>],
    arguments: &[&str],
) -> StoreResult<T> {
    call(connection, script, keys, arguments).await.map_err(backend_error)
}

/// A flag as scripts read it.
pub(super) fn flag(set: bool) -> &'static str {
    if set { "1" } else { "0" }
}

/// Reads a script's answer to an acquire: nothing, `fence`, or `fence others`.
pub(super) fn grant(answer: Option<String>, token: &Token) -> StoreResult<Option<Grant>> {
    let Some(answer) = answer else { return Ok(None) };
    let (fence, others) = answer.split_once(' ').unwrap_or((&answer, "0"));
    let fence = fence.parse().map_err(|_| BackendError(format!("not a fence: {answer}")))?;
    Ok(Some(Grant::block(fence, token.fences(), others != "0")))
}

/// Runs a script like [`run`], for a primitive without a hold.
pub(super) async fn run_command<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl AsRef<str>],
    arguments: &[&str],
) -> Result<T, CommandError> {
    call(connection, script, keys, arguments).await.map_err(command_error)
}

async fn call<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl AsRef<str>],
    arguments: &[&str],
) -> RedisResult<T> {
    // The client's own call of a script allocates for each argument.
    let mut call = Cmd::with_capacity(3 + keys.len() + arguments.len(), CALL_BYTES);
    call.arg("EVALSHA").arg(script.get_hash()).arg(keys.len());
    for key in keys {
        call.arg(key.as_ref());
    }
    call.arg(arguments);
    // A clone is a handle to the same connection.
    let mut redis = connection.clone();
    match call.query_async(&mut redis).await {
        Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
            script.load_async(&mut redis).await?;
            call.query_async(&mut redis).await
        }
        answer => answer,
    }
}

/// The error of a command that is a single step: either the server refused it, or the outcome is
/// unknown.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn command_error(error: ::redis::RedisError) -> CommandError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => CommandError::Refused(error.to_string()),
        _ => CommandError::NoAnswer(error.to_string()),
    }
}

/// The error of a client: the command may or may not have run.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn backend_error(error: ::redis::RedisError) -> BackendError {
    BackendError(error.to_string())
}
