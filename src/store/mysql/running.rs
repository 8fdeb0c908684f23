//! Requests that some instance still works on, as the instances tell each other.
//!
//! A row is good until its expiry, by the database's clock: a process that dies leaves rows behind.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::{MySqlConnection, MySqlPool};

use super::columns::Text;
use super::link::answered;
use crate::domain::{ItemId, UserId};

pub use super::orders::RequestOf;

/// How long an announcement is good for; it is made anew several times in that time.
pub const EXPIRES_AFTER: Duration = Duration::from_secs(30);
/// Requests of one statement.
const TOGETHER_MAX: usize = 256;

/// Announces requests of `instance`, or makes their announcements anew.
///
/// # Errors
/// The database's; some may be announced.
pub async fn announce(
    pool: &MySqlPool,
    instance: &str,
    requests: &[RequestOf],
) -> sqlx::Result<()> {
    let place =
        format!("(?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL {} SECOND)", EXPIRES_AFTER.as_secs());
    for chunk in requests.chunks(TOGETHER_MAX) {
        let statement = format!(
            "INSERT INTO running_requests (user_id, item_id, request_key, instance, expires_at) \
             VALUES {} ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)",
            vec![&*place; chunk.len()].join(", ")
        );
        // Of any length, so it is not worth being kept prepared.
        let mut query = sqlx::query(&statement).persistent(false);
        for (buyer, item, key) in chunk {
            query = query.bind(buyer.get()).bind(item.get()).bind(key).bind(instance);
        }
        answered(query.execute(pool)).await?;
    }
    Ok(())
}

/// Withdraws the announcements of requests of `instance` that have ended.
///
/// # Errors
/// The database's; those that were not withdrawn expire.
pub async fn withdraw(
    pool: &MySqlPool,
    instance: &str,
    requests: &[RequestOf],
) -> sqlx::Result<()> {
    for chunk in requests.chunks(TOGETHER_MAX) {
        let statement = format!(
            "DELETE FROM running_requests WHERE \
             (user_id, item_id, request_key, instance) IN ({})",
            vec!["(?, ?, ?, ?)"; chunk.len()].join(", ")
        );
        let mut query = sqlx::query(&statement).persistent(false);
        for (buyer, item, key) in chunk {
            query = query.bind(buyer.get()).bind(item.get()).bind(key).bind(instance);
        }
        answered(query.execute(pool)).await?;
    }
    Ok(())
}

/// Deletes what expired.
///
/// # Errors
/// The database's.
pub async fn purge(pool: &MySqlPool) -> sqlx::Result<()> {
    let purged = sqlx::query("DELETE FROM running_requests WHERE expires_at < UTC_TIMESTAMP(6)");
    answered(purged.execute(pool)).await?;
    Ok(())
}

/// Which of some requests run on other instances than `instance`.
///
/// # Errors
/// The database's.
pub async fn elsewhere(
    connection: &mut MySqlConnection,
    instance: &str,
    requests: &[(UserId, ItemId, &str)],
) -> sqlx::Result<HashSet<RequestOf>> {
    // The table is empty while every instance is well, and this is asked for every refused crowd.
    let some = sqlx::query("SELECT 1 FROM running_requests LIMIT 1");
    let some = answered(some.fetch_optional(&mut *connection)).await?;
    if some.is_none() {
        return Ok(HashSet::new());
    }
    let mut running = HashSet::new();
    for chunk in requests.chunks(TOGETHER_MAX) {
        let statement = format!(
            "SELECT user_id, item_id, request_key FROM running_requests \
             WHERE instance <> ? AND expires_at > UTC_TIMESTAMP(6) \
             AND (user_id, item_id, request_key) IN ({})",
            vec!["(?, ?, ?)"; chunk.len()].join(", ")
        );
        let mut query = sqlx::query_as(&statement).persistent(false).bind(instance);
        for (buyer, item, key) in chunk {
            query = query.bind(buyer.get()).bind(item.get()).bind(*key);
        }
        let rows = answered(query.fetch_all(&mut *connection)).await?;
        running.extend(rows.into_iter().map(request_of));
    }
    Ok(running)
}

/// Takes a row of the columns `user_id`, `item_id` and `request_key`.
pub(super) fn request_of((buyer, item, Text(key)): (UserId, ItemId, Text)) -> RequestOf {
    (buyer, item, key)
}
