//! Lua scripts, sent by their digest, and as a whole to a server that does not know it.

use std::time::Instant;

use redis::aio::ConnectionLike;
use redis::{
    Cmd, FromRedisValue, RedisError, RedisResult, ServerErrorKind, ToRedisArgs, from_redis_value,
};

use crate::replicated::{ReplicatedWrite, ReplicatedWriter};

/// The size of most calls, for their buffer, in bytes.
const CALL_BYTES: usize = 512;

/// A script. redis-rs has one too, which loads an unknown script with `SCRIPT LOAD`: in a cluster
/// that command has no key, so it would reach another server, or all, and fail while one is down.
/// `EVAL` goes where the call goes, and the server remembers the script.
#[derive(Debug)]
pub struct Script {
    code: Box<str>,
    digest: Box<str>,
}

/// A call of a script, with its keys and arguments.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    script: &'a Script,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Script {
    /// Takes the code.
    #[must_use]
    pub fn new(code: &str) -> Self {
        Self { code: code.into(), digest: redis::Script::new(code).get_hash().into() }
    }

    /// Begins a call with its first key. All keys have to be in one slot.
    pub fn key(&self, key: impl ToRedisArgs) -> Call<'_> {
        let mut call = Call { script: self, keys: Vec::new(), arguments: Vec::new() };
        call.key(key);
        call
    }

    /// The command that calls the script by its digest.
    pub fn by_digest(&self, keys: &[impl ToRedisArgs], arguments: &[impl ToRedisArgs]) -> Cmd {
        command("EVALSHA", &self.digest, keys, arguments)
    }

    fn by_code(&self, keys: &[impl ToRedisArgs], arguments: &[impl ToRedisArgs]) -> Cmd {
        command("EVAL", &self.code, keys, arguments)
    }

    /// Runs the script with these keys and arguments.
    ///
    /// # Errors
    /// The server's or the connection's.
    pub async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        keys: &[impl ToRedisArgs],
        arguments: &[impl ToRedisArgs],
    ) -> RedisResult<T> {
        match self.by_digest(keys, arguments).query_async(connection).await {
            Err(error) if is_unknown_script(&error) => {
                self.by_code(keys, arguments).query_async(connection).await
            }
            answer => answer,
        }
    }
}

impl Call<'_> {
    /// Adds a key.
    pub fn key(&mut self, key: impl ToRedisArgs) -> &mut Self {
        key.write_redis_args(&mut self.keys);
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl ToRedisArgs) -> &mut Self {
        argument.write_redis_args(&mut self.arguments);
        self
    }

    /// Runs the script.
    ///
    /// # Errors
    /// The server's or the connection's.
    pub async fn invoke_async<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<T> {
        self.script.run(connection, &self.keys, &self.arguments).await
    }

    /// Runs the script and waits until replicas have received what it wrote.
    ///
    /// # Errors
    /// See [`ReplicatedWriter::send`].
    pub async fn invoke_replicated<T: FromRedisValue>(
        &self,
        writer: &ReplicatedWriter,
        until: Instant,
    ) -> RedisResult<ReplicatedWrite<T>> {
        let Self { script, keys, arguments } = self;
        let written = match writer.send(&script.by_digest(keys, arguments), until).await {
            Err(error) if is_unknown_script(&error) => {
                writer.send(&script.by_code(keys, arguments), until).await?
            }
            written => written?,
        };
        let ReplicatedWrite { answer, is_replicated } = written;
        Ok(ReplicatedWrite { answer: from_redis_value(answer)?, is_replicated })
    }
}

/// Whether the server does not know the script.
#[must_use]
pub fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::NoScript.into()
}

/// The library's own call of a script allocates for each argument.
fn command(
    name: &str,
    script: &str,
    keys: &[impl ToRedisArgs],
    arguments: &[impl ToRedisArgs],
) -> Cmd {
    let mut command = Cmd::with_capacity(3 + keys.len() + arguments.len(), CALL_BYTES);
    command.arg(name).arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}
