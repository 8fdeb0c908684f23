//! Connections to Redis: one shared and multiplexed, and a few for one caller at a time, for WATCH.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, RedisResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shared::{DENIED, SharedConnection, connect, is_denial};
use crate::config::Config;

/// Connections lent to single callers at once, for WATCH.
pub const OWN_CONNECTIONS_MAX: usize = 64;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// TCP keep-alive: idle time before the first probe, time between probes, and unanswered probes
/// after which the connection counts as broken.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);
const KEEPALIVE_TRIES: u32 = 3;
/// How long the kernel keeps sending data that the server's kernel does not acknowledge.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// The client of Redis. Clones share everything.
#[derive(Clone)]
pub struct RedisClient {
    client: Client,
    shared: SharedConnection,
    prefix: Arc<str>,
    command_timeout: Duration,
    own: Arc<OwnConnections>,
}

struct OwnConnections {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<MultiplexedConnection>>,
}

/// A connection lent to one user. Give it back with [`OwnConnection::keep`] when its state is
/// clean. If it is dropped instead, it is closed, which ends its WATCH, and all idle connections
/// are closed too: they may have the same fault.
pub struct OwnConnection {
    /// The connection.
    pub connection: MultiplexedConnection,
    kept: bool,
    pool: Arc<OwnConnections>,
    _permit: OwnedSemaphorePermit,
}

impl RedisClient {
    /// Reads the URL; connects when first used, and again by itself after a loss. A command that
    /// failed is never sent again by itself: whether it ran is unknown.
    ///
    /// # Errors
    /// A sentence when the URL cannot be read.
    pub fn new(config: &Config) -> Result<Self, String> {
        let url = config.redis_url.reveal();
        if url.is_empty() {
            return Err("REDIS_URL is not set: redis://host:port".to_owned());
        }
        let unreadable = |error| format!("REDIS_URL cannot be read: {error}");
        let client = client(url).map_err(unreadable)?;
        let command_timeout = Duration::from_millis(config.redis.command_timeout_ms);
        let shared = SharedConnection::new(client.clone(), timeouts(command_timeout));
        let own = Arc::new(OwnConnections {
            permits: Arc::new(Semaphore::new(OWN_CONNECTIONS_MAX)),
            idle: Mutex::default(),
        });
        let prefix = config.redis.prefix.as_str().into();
        Ok(Self { client, shared, prefix, command_timeout, own })
    }

    /// The shared connection.
    #[must_use]
    pub fn shared(&self) -> SharedConnection {
        self.shared.clone()
    }

    /// The client, for connections of other kinds.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The prefix of every key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Waits for one of the [`OWN_CONNECTIONS_MAX`] connections that are lent to single callers.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn own_connection(&self) -> RedisResult<OwnConnection> {
        let permit = Arc::clone(&self.own.permits)
            .acquire_owned()
            .await
            .map_err(|_| redis::RedisError::from(std::io::Error::other("the pool is closed")))?;
        let idle = self.own.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let config = timeouts(self.command_timeout);
                connect(&self.client, &config).await?
            }
        };
        Ok(OwnConnection { connection, kept: false, pool: Arc::clone(&self.own), _permit: permit })
    }

    /// Checks whether Redis accepts the password of the settings. A server that does not answer
    /// passes.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn takes_password(&self) -> Result<(), String> {
        match self.ping().await {
            Err(error) if is_denial(&error) => Err(DENIED.to_owned()),
            _ => Ok(()),
        }
    }

    /// Sends a PING and waits for its answer.
    ///
    /// # Errors
    /// When Redis does not answer in time.
    pub async fn ping(&self) -> RedisResult<()> {
        redis::cmd("PING").exec_async(&mut self.shared()).await
    }
}

/// Makes a shared connection to another server, which connects when it is first used, and again
/// after a loss.
///
/// # Errors
/// When the URL cannot be read.
pub fn connect_when_used(url: &str, config: &Config) -> RedisResult<SharedConnection> {
    let command_timeout = Duration::from_millis(config.redis.command_timeout_ms);
    Ok(SharedConnection::new(client(url)?, timeouts(command_timeout)))
}

fn client(url: &str) -> RedisResult<Client> {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TRIES);
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let settings = settings.set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_MAX);
    Client::open(url.into_connection_info()?.set_tcp_settings(settings))
}

fn timeouts(command_timeout: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(command_timeout))
}

impl OwnConnections {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<MultiplexedConnection>> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl OwnConnection {
    /// Gives the connection back: nothing is watched on it, and no command is in flight.
    pub fn keep(mut self) {
        self.kept = true;
        self.pool.idle().push(self.connection.clone());
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if !self.kept {
            self.pool.idle().clear();
        }
    }
}
