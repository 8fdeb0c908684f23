//! The server that a pool leads to, so that the answer of a server that was replaced is noticed.

use std::sync::Arc;

use super::Database;
use sqlx::mysql::MySqlConnectOptions;

/// The server that a pool led to when this was made.
///
/// A writer that was frozen or cut off may be replaced, wake up, and answer a COMMIT that no other
/// server has. So an answer counts only if the pool still leads to the server that gave it;
/// otherwise it is an unknown outcome, which the new writer settles.
#[derive(Clone, Debug)]
pub struct Destination {
    pool: Database,
    options: Arc<MySqlConnectOptions>,
}

impl Destination {
    /// The present destination of a pool.
    #[must_use]
    pub fn of(pool: &Database) -> Self {
        Self { pool: pool.clone(), options: pool.connect_options() }
    }

    /// Returns whether the pool leads to another server by now.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        // Each change sets new options.
        !Arc::ptr_eq(&self.options, &self.pool.connect_options())
    }

    /// The error for an answer of a server that was replaced: a lost connection.
    #[must_use]
    pub fn replaced() -> sqlx::Error {
        let sentence = "the server that answered is not the writer of the ledger any more";
        sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, sentence))
    }
}
