//! A shared connection, which connects when it is first used and again after every loss.
//!
//! redis-rs has `ConnectionManager` for this, but that keeps the error of a failed attempt for ever
//! unless it is an I/O error: a handshake cut in the middle would leave the process without Redis
//! until it is restarted. Here every failed attempt is followed by the next one. Also, redis-rs
//! keeps a connection whose commands are not answered for as long as the kernel keeps the socket.
//! Here a few unanswered commands in a row close the connection.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult,
    Value,
};

/// Unanswered commands in a row after which the connection is replaced; a single one may be slow.
const UNANSWERED_MAX: u32 = 3;
/// A command that its caller gave up after this time counts as not answered.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(100);

type Connecting = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// The connection. Clones share it. A command that failed is never sent again by itself: whether
/// it ran is unknown.
#[derive(Clone)]
pub struct SharedConnection {
    client: Client,
    config: AsyncConnectionConfig,
    current: Arc<Mutex<Attempt>>,
    /// Whether Redis accepted the password when the last connection was made, so that a later
    /// refusal is logged once.
    admitted: Arc<AtomicBool>,
}

/// One connection, from the attempt to connect.
#[derive(Clone)]
struct Attempt {
    connecting: Connecting,
    /// Unanswered commands in a row.
    unanswered: Arc<AtomicU32>,
}

/// A command that waits for its answer.
struct Waiting<'a> {
    connection: &'a SharedConnection,
    attempt: &'a Attempt,
    since: Instant,
    ended: bool,
}

impl SharedConnection {
    /// Makes a connection that connects when it is first used.
    #[must_use]
    pub fn new(client: Client, config: AsyncConnectionConfig) -> Self {
        let current = Arc::new(Mutex::new(Attempt::new(&client, &config)));
        Self { client, config, current, admitted: Arc::default() }
    }

    /// Sends one request and waits for its answer; drops the connection if it was lost.
    async fn exchange<T>(
        &self,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let attempt = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connected = attempt.connecting.clone().await;
        self.note_admission(&connected);
        let mut connection = connected.inspect_err(|_| self.give_up(&attempt))?;
        let since = Instant::now();
        let mut waiting = Waiting { connection: self, attempt: &attempt, since, ended: false };
        let answer = send(&mut connection).await;
        waiting.ended = true;
        match &answer {
            Err(error) if error.is_timeout() => self.not_answered(&attempt),
            Err(error) if error.is_unrecoverable_error() => self.give_up(&attempt),
            _ => attempt.answered(),
        }
        answer
    }

    /// Counts one more unanswered command.
    fn not_answered(&self, attempt: &Attempt) {
        if attempt.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_MAX {
            tracing::debug!("silent connection to Redis replaced");
            self.give_up(attempt);
        }
    }

    /// Logs, once, that Redis refuses a password which it accepted before. A password that it never
    /// accepted is reported at the start.
    fn note_admission(&self, connected: &RedisResult<MultiplexedConnection>) {
        // Read before the write: every command passes here.
        let was_admitted = self.admitted.load(Ordering::Relaxed);
        match connected {
            Ok(_) if !was_admitted => self.admitted.store(true, Ordering::Relaxed),
            Err(error)
                if was_admitted
                    && is_denial(error)
                    && self.admitted.swap(false, Ordering::Relaxed) =>
            {
                tracing::error!(
                    "Redis refuses a password that it accepted earlier: purchases that need Redis are \
                     refused until the password of the server and of the settings is the same"
                );
            }
            _ => {}
        }
    }

    /// Removes a failed attempt, so that the next caller makes another one.
    fn give_up(&self, failed: &Attempt) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.connecting.ptr_eq(&failed.connecting) {
            *current = Attempt::new(&self.client, &self.config);
        }
    }
}

impl Attempt {
    fn new(client: &Client, config: &AsyncConnectionConfig) -> Self {
        let (client, config) = (client.clone(), config.clone());
        let connecting = async move { connect(&client, &config).await }.boxed().shared();
        Self { connecting, unanswered: Arc::default() }
    }

    fn answered(&self) {
        // Read before the write: every command passes here.
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.ended && self.since.elapsed() >= GIVEN_UP_AFTER {
            self.connection.not_answered(self.attempt);
        }
    }
}

/// The error for an operator when Redis demands another password.
pub const DENIED: &str = "Redis refuses the password of REDIS_URL, or there is none in it: write \
     redis://:password@host:port, or redis+unix:///path?pass=password for a socket";

/// Whether Redis answers, but refuses this password, or demands one.
#[must_use]
pub fn is_denial(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

/// Connects and checks with a PING that commands are accepted. Without a password redis-rs sends
/// nothing when it connects, so it would not notice that one is demanded; and it panics when a
/// server refuses MULTI.
pub(super) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let mut connection = client.get_multiplexed_async_connection_with_config(config).await?;
    match redis::cmd("PING").exec_async(&mut connection).await {
        // A Redis that cannot save or is busy answers with an error: it is connected all the same.
        Err(error) if error.code().is_some() && !is_denial(&error) => Ok(connection),
        Err(error) => Err(error),
        Ok(()) => Ok(connection),
    }
}

impl ConnectionLike for SharedConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.exchange(async |connection| connection.send_packed_command(command).await).boxed()
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.exchange(async move |connection| {
            connection.send_packed_commands(pipeline, offset, count).await
        })
        .boxed()
    }

    /// The database of the URL.
    fn get_db(&self) -> i64 {
        self.client.get_connection_info().redis_settings().db()
    }
}
