//! The short way: from a URL to locks by name.

use ::redis::RedisError;
use ::redis_connection::{Address, InvalidAddress, Options, SharedConnection};
use tokio_util::task::TaskTracker;

use super::subscriber::Subscriber;
use super::token;
use crate::{InvalidName, Locks};

/// The beginning of the keys of the locks that [`connect`] makes.
pub const KEY_PREFIX_DEFAULT: &str = "leaselock:";

/// Why [`connect`] made no locks.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be used.
    #[error("the URL of Redis cannot be used: {0}")]
    Address(#[from] InvalidAddress),
    /// No server answered in time, or it refuses us.
    #[error("Redis does not answer: {0}")]
    NoAnswer(#[from] RedisError),
    /// The prefix cannot begin a key.
    #[error(transparent)]
    Prefix(#[from] InvalidName),
}

/// Connects to Redis and makes locks of the kind [`token`], whose waiters are notified. All their keys
/// begin with [`KEY_PREFIX_DEFAULT`].
///
/// The URL is `redis://[user:password@]host[:port]`, or one of the other forms of
/// [`Address`]: Sentinels, a cluster, a socket; `rediss` for TLS, with the feature `redis-tls`. The
/// connection is made again after a loss. The background tasks end when the last clone of the locks
/// and the last guard were dropped.
///
/// # Errors
/// See [`ConnectError`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leaselock::redis::connect("redis://127.0.0.1:6379").await?;
/// let guard = locks.lock("nightly:report").await?;
/// // ... work ...
/// let _ = guard.release().await;
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Locks, ConnectError> {
    let address = Address::parse(url)?;
    #[cfg(feature = "redis-tls")]
    let address = address.with_certificates(&::redis_connection::Certificates::default())?;
    let connection = SharedConnection::new(&address, Options::default())?;
    for answer in connection.ask_each(&::redis::cmd("PING")).await? {
        answer?;
    }
    Ok(locks(&connection, KEY_PREFIX_DEFAULT)?)
}

/// Makes locks of the kind [`token`], whose waiters are notified, on a connection of your own. All
/// their keys begin with `key_prefix`.
///
/// # Errors
/// When the prefix is not valid.
pub fn locks(connection: &SharedConnection, key_prefix: &str) -> Result<Locks, InvalidName> {
    let tasks = TaskTracker::new();
    let subscriber = Subscriber::start(connection, key_prefix, &tasks)?;
    let mutex = token::notified(connection.clone(), &subscriber, key_prefix, &tasks)?;
    Ok(Locks::new(mutex))
}
