//! Running scripts.

use std::sync::LazyLock;

use ::redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, Script, ServerErrorKind};

use super::keys::Keys;
use super::{Connection, FENCE_KEPT, WAITER_ALIVE};
use crate::store::{BackendError, Grant, Renewal, Token};
use crate::{CommandError, Fence};

/// What most calls fit into.
const CALL_BYTES: usize = 512;

static RAISE_FENCE: LazyLock<Script> = LazyLock::new(|| script(&[include_str!("raise_fence.lua")]));

/// A script made of these parts, each of which may use the parts before it and the spans of time
/// that are settled here.
pub(super) fn script(parts: &[&str]) -> Script {
    let (kept_ms, alive_ms) = (FENCE_KEPT.as_millis(), WAITER_ALIVE.as_millis());
    let settled = format!("local FENCE_KEPT_MS, WAITER_ALIVE_MS = '{kept_ms}', '{alive_ms}'\n");
    Script::new(&[&*settled, &parts.concat()].concat())
}

/// Runs a script by its digest, loading it first where the server does not know it.
pub(crate) async fn run<C: Connection, T: FromRedisValue>(
    connection: &C,
    script: &Script,
    keys: &[impl AsRef<str>],
    arguments: &[&str],
) -> Result<T, BackendError> {
    call(connection, script, keys, arguments).await.map_err(backend_error)
}

/// How scripts are told yes or no.
pub(super) fn flag(set: bool) -> &'static str {
    if set { "1" } else { "0" }
}

/// What a script granted to `token` with its answer: `fence` or `fence others`.
pub(super) fn grant(answer: Option<String>, token: &Token) -> Result<Option<Grant>, BackendError> {
    let Some(answer) = answer else { return Ok(None) };
    let (fence, others) = answer.split_once(' ').unwrap_or((&answer, "0"));
    let fence = fence.parse().map_err(|_| BackendError(format!("not a fence: {answer}")))?;
    Ok(Some(Grant::block(fence, token.fences(), others != "0")))
}

/// Raises a fence counter to a fence, unless it is above that already.
pub(super) async fn raise_fence<C: Connection>(
    connection: &C,
    counter: String,
    at_least: Fence,
) -> Result<(), BackendError> {
    let _fence: u64 = run(connection, &RAISE_FENCE, &[counter], &[&at_least.to_string()]).await?;
    Ok(())
}

/// The same for a primitive that holds nothing.
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

/// What an error means to one whose command is a single step: either the server says that it did
/// not do it, or nobody knows.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(super) fn command_error(error: ::redis::RedisError) -> CommandError {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => CommandError::Refused(error.to_string()),
        _ => CommandError::NoAnswer(error.to_string()),
    }
}

/// Runs the script of a kind that renews by `KEYS[1]`, the token and the lease, once for each hold,
/// in one round trip.
pub(super) async fn renew_together<C: Connection>(
    connection: &C,
    script: &Script,
    keys: &Keys,
    renewals: &[Renewal],
) -> Result<Vec<bool>, BackendError> {
    let mut pipeline = ::redis::pipe();
    for Renewal { name, token, lease } in renewals {
        let call = pipeline.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(keys.lock(name));
        call.arg(token.as_str()).arg(lease.as_millis().to_string());
    }
    let mut redis = connection.clone();
    match pipeline.query_async(&mut redis).await {
        Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
            script.load_async(&mut redis).await.map_err(backend_error)?;
            pipeline.query_async(&mut redis).await.map_err(backend_error)
        }
        answer => answer.map_err(backend_error),
    }
}

/// What an error of the client means.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
pub(crate) fn backend_error(error: ::redis::RedisError) -> BackendError {
    BackendError(error.to_string())
}
