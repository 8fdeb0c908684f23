//! What the checks of an installation ask a database server: whether it can be reached, and what it is.

use std::io;
use std::time::Duration;

use futures::future::join_all;
use sqlx::Connection;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};

pub use crate::session::session_differences;
use crate::statement::Read;
use crate::{Database, hosts, session};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The reason why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No server listens at the address.
    NoServer,
    /// The name of the host has no address.
    NoAddress,
    /// The server does not answer in time.
    Silent,
    /// The connection failed.
    Link(String),
    /// The two sides do not agree on TLS.
    Tls(String),
    /// The pool got no connection in time.
    NoConnection,
    /// The server answered with an error.
    Refused { number: u16, message: String },
    /// Anything else.
    Other(String),
}

impl From<&sqlx::Error> for Fault {
    fn from(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(database) => {
                let error = database.try_downcast_ref::<MySqlDatabaseError>();
                let number = error.map_or(0, MySqlDatabaseError::number);
                Self::Refused { number, message: database.message().to_owned() }
            }
            sqlx::Error::Io(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::NoServer,
                _ if error.to_string().contains("lookup address") => Self::NoAddress,
                _ => Self::Link(error.to_string()),
            },
            sqlx::Error::Tls(error) => Self::Tls(error.to_string()),
            sqlx::Error::PoolTimedOut => Self::NoConnection,
            error => Self::Other(error.to_string()),
        }
    }
}

/// Connects once to each host of a URL, because a pool hides why it has no connection. Returns the name of the first
/// host that answers, or the fault of the first host.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub async fn reach(url: &str) -> Result<Result<String, Fault>, String> {
    let hosts = hosts::read(url)?;
    let mut answers = join_all(hosts.iter().map(connect)).await;
    let reached = answers.iter().position(Result::is_ok).unwrap_or(0);
    Ok(answers.swap_remove(reached))
}

async fn connect(host: &MySqlConnectOptions) -> Result<String, Fault> {
    match tokio::time::timeout(CONNECT_TIMEOUT, session::open(host)).await {
        Ok(Ok(connection)) => {
            let _ = tokio::time::timeout(CONNECT_TIMEOUT, connection.close()).await;
            Ok(hosts::name(host))
        }
        Ok(Err(error)) => Err(Fault::from(&error)),
        Err(_) => Err(Fault::Silent),
    }
}

/// Reads the server's own version text.
pub async fn version(pool: &Database) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT VERSION()").one(pool).await
}

/// Reads how many connections the server takes.
pub async fn connections_max(pool: &Database) -> sqlx::Result<u64> {
    sqlx::query_scalar("SELECT CAST(@@max_connections AS UNSIGNED)").one(pool).await
}
