//! The connection to one server, which connects when it is first used and again after every loss.
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
use redis::aio::{AsyncPushSender, MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, Pipeline, ProtocolVersion,
    RedisError, RedisResult, Value,
};

use crate::refusal::Failure;

/// Unanswered commands in a row after which the connection is replaced; a single one may be slow.
const UNANSWERED_MAX: u32 = 3;
/// A command that its caller gave up after this time counts as not answered.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(100);
/// How long connecting for subscriptions may take.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(1);

type PendingConnection = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// One server. Clones share its connection. A command that failed is never sent again by itself:
/// whether it ran is unknown.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    name: Box<str>,
    client: Client,
    config: AsyncConnectionConfig,
    current: Mutex<Attempt>,
    /// Whether Redis accepted the password when the last connection was made, so that a later
    /// refusal is logged once.
    admitted: AtomicBool,
}

/// One connection, from the attempt to connect.
#[derive(Clone)]
struct Attempt {
    connecting: PendingConnection,
    /// Unanswered commands in a row.
    unanswered: Arc<AtomicU32>,
}

/// A command that waits for its answer.
struct PendingCommand<'a> {
    node: &'a Node,
    attempt: &'a Attempt,
    since: Instant,
    ended: bool,
}

impl Node {
    /// Connects when it is first used.
    pub(crate) fn new(info: ConnectionInfo, config: &AsyncConnectionConfig) -> RedisResult<Self> {
        Ok(Self::of_client(Client::open(info)?, config))
    }

    pub(crate) fn of_client(client: Client, config: &AsyncConnectionConfig) -> Self {
        let name = client.get_connection_info().addr().to_string().into();
        let current = Mutex::new(Attempt::new(&client, config));
        let config = config.clone();
        let admitted = AtomicBool::default();
        Self { inner: Arc::new(Inner { name, client, config, current, admitted }) }
    }

    /// Its address, `host:port` or the path of its socket.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Whether two values are one server.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Sends one command to this server, whatever its keys, and waits for its answer.
    ///
    /// # Errors
    /// The server's or the connection's.
    pub async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        let answer = self.command(command).await.map_err(Failure::into_error)?;
        answer.extract_error()
    }

    /// Makes a connection for subscriptions.
    ///
    /// # Errors
    /// When the server cannot be reached in time.
    pub async fn subscribe(&self) -> RedisResult<PubSub> {
        let connecting = self.inner.client.get_async_pubsub();
        let in_time = tokio::time::timeout(SUBSCRIBE_TIMEOUT, connecting).await;
        in_time.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
    }

    /// Makes a connection for one caller, by RESP3: the server's own messages go to `pushes`, such as
    /// those of `CLIENT TRACKING`.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not speak RESP3.
    pub async fn pushing(
        &self,
        pushes: impl AsyncPushSender,
    ) -> RedisResult<MultiplexedConnection> {
        let settings = self.info().redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(self.info().clone().set_redis_settings(settings))?;
        connect(&client, &self.inner.config.clone().set_push_sender(pushes)).await
    }

    /// Makes a connection for one caller.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn own(&self) -> RedisResult<MultiplexedConnection> {
        connect(&self.inner.client, &self.inner.config).await
    }

    /// Makes another connection to this server, on which answers may take this long.
    pub(crate) fn with_connection_of_its_own(&self, answer_max: Duration) -> Self {
        let config = self.inner.config.clone().set_response_timeout(Some(answer_max));
        Self::of_client(self.inner.client.clone(), &config)
    }

    pub(crate) fn info(&self) -> &ConnectionInfo {
        self.inner.client.get_connection_info()
    }

    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, Failure> {
        self.exchange(async |connection| connection.send_packed_command(command).await).await
    }

    pub(crate) async fn pipeline(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> Result<Vec<Value>, Failure> {
        self.exchange(async |connection| {
            connection.send_packed_commands(pipeline, offset, count).await
        })
        .await
    }

    /// Sends one request and waits for its answer; drops the connection if it was lost.
    async fn exchange<T>(
        &self,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Failure> {
        let attempt = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connected = attempt.connecting.clone().await;
        self.note_admission(&connected);
        let connected = connected.inspect_err(|_| self.replace(&attempt));
        let mut connection = connected.map_err(Failure::NotConnected)?;
        let since = Instant::now();
        let mut waiting = PendingCommand { node: self, attempt: &attempt, since, ended: false };
        let answer = send(&mut connection).await;
        waiting.ended = true;
        match &answer {
            Err(error) if error.is_timeout() => self.not_answered(&attempt),
            Err(error) if error.is_unrecoverable_error() => self.replace(&attempt),
            _ => attempt.answered(),
        }
        answer.map_err(Failure::Unknown)
    }

    /// Closes the connection: the next command makes another one.
    pub(crate) fn give_up(&self) {
        let attempt = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.replace(&attempt);
    }

    /// Counts one more unanswered command.
    fn not_answered(&self, attempt: &Attempt) {
        if attempt.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= UNANSWERED_MAX {
            tracing::debug!("silent connection to Redis replaced");
            self.replace(attempt);
        }
    }

    /// Logs, once, that Redis refuses a password which it accepted before. A password that it never
    /// accepted is reported at the start.
    fn note_admission(&self, connected: &RedisResult<MultiplexedConnection>) {
        let admitted = &self.inner.admitted;
        // Read before the write: every command passes here.
        let was_admitted = admitted.load(Ordering::Relaxed);
        match connected {
            Ok(_) if !was_admitted => admitted.store(true, Ordering::Relaxed),
            Err(error)
                if was_admitted && is_denial(error) && admitted.swap(false, Ordering::Relaxed) =>
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
    fn replace(&self, failed: &Attempt) {
        let mut current = self.inner.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.connecting.ptr_eq(&failed.connecting) {
            *current = Attempt::new(&self.inner.client, &self.inner.config);
        }
    }
}

impl Attempt {
    fn new(client: &Client, config: &AsyncConnectionConfig) -> Self {
        let client = client.clone();
        let config = config.clone();
        let connecting = async move {
            // A task of its own: when all callers have given up, the time limit would pass while nobody goes on,
            // and the next caller would get that error.
            let connecting = tokio::spawn(async move { connect(&client, &config).await });
            connecting.await.unwrap_or_else(|ended| Err(std::io::Error::other(ended).into()))
        };
        Self { connecting: connecting.boxed().shared(), unanswered: Arc::default() }
    }

    fn answered(&self) {
        // Read before the write: every command passes here.
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for PendingCommand<'_> {
    fn drop(&mut self) {
        if !self.ended && self.since.elapsed() >= GIVEN_UP_AFTER {
            self.node.not_answered(self.attempt);
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
async fn connect(
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

#[cfg(test)]
mod tests {
    use futures::poll;
    use redis::IntoConnectionInfo;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn connecting_goes_on_when_its_caller_has_given_up() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = server.local_addr().expect("an address");
        let info = format!("redis://{address}").into_connection_info().expect("a URL");
        let node = Node::new(info, &AsyncConnectionConfig::new()).expect("a client");
        let ping = redis::cmd("PING");
        let mut asked = Box::pin(node.ask(&ping));
        assert!(poll!(&mut asked).is_pending());
        drop(asked);
        let (mut stream, _) = server.accept().await.expect("a connection");
        let spoken = timeout(Duration::from_secs(10), stream.read_u8()).await;
        assert!(spoken.expect("nobody speaks on the connection").is_ok());
    }
}
