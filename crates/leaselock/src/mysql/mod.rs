//! Locks in MySQL or MariaDB: a row per name, or the server's own named locks.

pub mod named;
pub mod table;

use crate::store::BackendError;

/// What an error of the client means.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn backend_error(error: sqlx::Error) -> BackendError {
    BackendError(error.to_string())
}
