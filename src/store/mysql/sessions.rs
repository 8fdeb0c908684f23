//! Tokens that were signed out before they expired.

use sqlx::MySqlPool;
use time::OffsetDateTime;

use super::columns::Text;
use super::link::answered;

/// Inserts a revoked token; a second insert changes nothing.
///
/// # Errors
/// The database's.
pub async fn revoke(
    pool: &MySqlPool,
    token_id: &str,
    expires_at: OffsetDateTime,
) -> sqlx::Result<()> {
    let written = sqlx::query(
        "INSERT INTO revoked_sessions (token_id, revoked_at, expires_at) \
         VALUES (?, UTC_TIMESTAMP(6), ?) ON DUPLICATE KEY UPDATE expires_at = expires_at",
    )
    .bind(token_id)
    .bind(expires_at)
    .execute(pool);
    answered(written).await?;
    Ok(())
}

/// Reads the tokens that were revoked and have not expired yet.
///
/// # Errors
/// The database's.
pub async fn list(pool: &MySqlPool) -> sqlx::Result<Vec<(String, OffsetDateTime)>> {
    let rows = sqlx::query_as(
        "SELECT token_id, expires_at FROM revoked_sessions WHERE expires_at > UTC_TIMESTAMP(6)",
    )
    .fetch_all(pool);
    let rows: Vec<(Text, OffsetDateTime)> = answered(rows).await?;
    Ok(rows.into_iter().map(|(Text(token_id), expires_at)| (token_id, expires_at)).collect())
}

/// Deletes at most `limit` tokens that have expired.
///
/// # Errors
/// The database's.
pub async fn forget_expired(pool: &MySqlPool, limit: u32) -> sqlx::Result<u64> {
    let done =
        sqlx::query("DELETE FROM revoked_sessions WHERE expires_at <= UTC_TIMESTAMP(6) LIMIT ?")
            .bind(limit)
            .execute(pool);
    let done = answered(done).await?;
    Ok(done.rows_affected())
}
