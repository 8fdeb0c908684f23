//! New ids of rows that the outside knows by number.
//!
//! The program makes them from the time and random bits, and not the database by counting: after a restore, or a
//! promotion that lacks commits, a counter would give numbers again that tokens, tickets, links and keys in Redis still
//! carry.

use crate::error::shown;
use crate::{Fault, WorkError};

/// Tries with other ids, while the ids are taken. Two ids of one millisecond are equal once in 4,096 times.
const TRIES_MAX: u32 = 4;

/// Runs `insert`, which makes a new id each time, until the id is free.
///
/// # Errors
/// Those of `insert`; that the last id is taken, too.
pub async fn with_new_id<T, E: WorkError, F: Future<Output = Result<T, E>>>(
    mut insert: impl FnMut() -> F,
) -> Result<T, E> {
    for _ in 1..TRIES_MAX {
        match insert().await {
            Err(error) if error.database().is_some_and(is_taken_id) => {}
            ended => return ended,
        }
    }
    insert().await
}

/// Returns whether an error says that a primary key is taken, and no other unique key.
pub fn is_taken_id(error: &sqlx::Error) -> bool {
    let is_primary = |error: &dyn sqlx::error::DatabaseError| is_of_primary(error.message());
    Fault::of(error) == Fault::Duplicate && error.as_database_error().is_some_and(is_primary)
}

/// MariaDB says 'PRIMARY', MySQL 'users.PRIMARY'. Vitess writes numbers behind it, and then values.
pub(crate) fn is_of_primary(message: &str) -> bool {
    let said = shown(message);
    said.rsplit_once(" (errno ").map_or(said, |(said, _)| said).ends_with("PRIMARY'")
}
