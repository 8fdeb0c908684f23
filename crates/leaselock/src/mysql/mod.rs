//! Locks in MySQL or MariaDB: a row per name, or the server's own named locks.

pub mod named;
pub mod table;

use crate::store::Unanswered;

/// What an error of the client means.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn unanswered(error: sqlx::Error) -> Unanswered {
    Unanswered(error.to_string())
}
