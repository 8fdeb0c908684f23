//! Announcements of running requests, by which instances know each other's requests.
//!
//! A row is valid until its expiry, by the database's clock: a process that dies leaves rows
//! behind.

use std::time::Duration;

use sqlx::{MySqlConnection, QueryBuilder};

use super::orders::{RequestOf, request_of};
use mysql_connection::Database;
use mysql_connection::statement::{Read, Write};

/// How long an announcement is valid; it is renewed several times in that time.
pub const EXPIRES_AFTER: Duration = Duration::from_secs(30);
/// Requests in one statement.
const TOGETHER_MAX: usize = 256;

/// Announces requests of `instance`, or renews their announcements.
///
/// # Errors
/// The database's; some may be announced.
pub async fn announce(pool: &Database, instance: &str, requests: &[RequestOf]) -> sqlx::Result<()> {
    let expires_at = format!("UTC_TIMESTAMP(6) + INTERVAL {} SECOND", EXPIRES_AFTER.as_secs());
    for chunk in requests.chunks(TOGETHER_MAX) {
        let mut insert = QueryBuilder::new(
            "INSERT INTO running_requests (user_id, item_id, request_key, instance, expires_at) ",
        );
        insert.push_values(chunk, |mut row, (buyer, item, key)| {
            row.push_bind(buyer.get()).push_bind(item.get()).push_bind(key);
            row.push_bind(instance).push(&expires_at);
        });
        insert.push(" ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)");
        // Its length varies, so a prepared statement would not be used again.
        insert.build().persistent(false).run(pool).await?;
    }
    Ok(())
}

/// Withdraws the announcements of requests of `instance` that have ended.
///
/// # Errors
/// The database's; those that were not withdrawn expire.
pub async fn withdraw(pool: &Database, instance: &str, requests: &[RequestOf]) -> sqlx::Result<()> {
    for chunk in requests.chunks(TOGETHER_MAX) {
        let mut delete = QueryBuilder::new(
            "DELETE FROM running_requests WHERE (user_id, item_id, request_key, instance) IN",
        );
        delete.push_tuples(chunk, |mut row, (buyer, item, key)| {
            row.push_bind(buyer.get()).push_bind(item.get()).push_bind(key).push_bind(instance);
        });
        delete.build().persistent(false).run(pool).await?;
    }
    Ok(())
}

/// Deletes expired announcements.
pub async fn purge(pool: &Database) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM running_requests WHERE expires_at < UTC_TIMESTAMP(6)").run(pool).await
}

/// Finds the given requests that run on other instances than `instance`.
pub async fn elsewhere(
    connection: &mut MySqlConnection,
    instance: &str,
    requests: &[RequestOf],
) -> sqlx::Result<Vec<RequestOf>> {
    // The table is empty while every instance is well, and this runs for every batch of refusals.
    let some =
        sqlx::query("SELECT 1 FROM running_requests LIMIT 1").first(&mut *connection).await?;
    if some.is_none() {
        return Ok(Vec::new());
    }
    let mut running = Vec::new();
    for chunk in requests.chunks(TOGETHER_MAX) {
        let mut select = QueryBuilder::new(
            "SELECT user_id, item_id, request_key FROM running_requests \
             WHERE expires_at > UTC_TIMESTAMP(6) AND instance <> ",
        );
        select.push_bind(instance).push(" AND (user_id, item_id, request_key) IN");
        select.push_tuples(chunk, |mut row, (buyer, item, key)| {
            row.push_bind(buyer.get()).push_bind(item.get()).push_bind(key);
        });
        let query = select.build_query_as().persistent(false);
        let rows = query.all(&mut *connection).await?;
        running.extend(rows.into_iter().map(request_of));
    }
    Ok(running)
}
