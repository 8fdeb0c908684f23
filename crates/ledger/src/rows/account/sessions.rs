//! Tokens that were signed out before they expired: one by one, and all those of a user.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, answered, confirmed, transact};
use shop_domain::UserId;
use shop_domain::columns::Text;

/// Inserts a revoked token; a second insert changes nothing.
pub async fn revoke(
    pool: &Database,
    token_id: &str,
    expires_at: OffsetDateTime,
) -> sqlx::Result<()> {
    let written = sqlx::query(
        "INSERT INTO revoked_sessions (token_id, revoked_at, expires_at) \
         VALUES (?, UTC_TIMESTAMP(6), ?) ON DUPLICATE KEY UPDATE expires_at = expires_at",
    )
    .binds((token_id, expires_at))
    .run(pool);
    confirmed(pool, written).await
}

/// Reads the tokens that were revoked and have not expired yet.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<(String, OffsetDateTime)>> {
    let rows: Vec<(Text, OffsetDateTime)> = sqlx::query_as(
        "SELECT token_id, expires_at FROM revoked_sessions WHERE expires_at > UTC_TIMESTAMP(6)",
    )
    .all(pool)
    .await?;
    Ok(rows.into_iter().map(|(Text(token_id), expires_at)| (token_id, expires_at)).collect())
}

/// Deletes at most `limit` tokens that have expired.
pub async fn forget_expired(pool: &Database, limit: u32) -> sqlx::Result<u64> {
    sqlx::query("DELETE FROM revoked_sessions WHERE expires_at <= UTC_TIMESTAMP(6) LIMIT ?")
        .bind(limit)
        .changed(pool)
        .await
}

/// Notes that a secret signs tokens of this ledger.
pub async fn note_key(pool: &Database, key_id: &str) -> sqlx::Result<()> {
    let noted = sqlx::query(
        "INSERT IGNORE INTO token_keys (key_id, first_used_at) VALUES (?, UTC_TIMESTAMP(6))",
    );
    noted.bind(key_id).run(pool).await
}

/// The secrets that have signed tokens of this ledger.
pub async fn used_keys(pool: &Database) -> sqlx::Result<Vec<String>> {
    let rows: Vec<Text> = sqlx::query_scalar("SELECT key_id FROM token_keys").all(pool).await?;
    Ok(rows.into_iter().map(|Text(key_id)| key_id).collect())
}

/// How long a generation is listed, in days: longer than any token is valid, see `config`.
pub const GENERATION_DAYS: u32 = 31;
/// How far a later read goes back before the newest generation that was seen, in minutes: a
/// transaction may commit after one that began later.
const GENERATION_OVERLAP_MINUTES: u32 = 10;

/// A generation of a user's sessions, which ended all earlier sessions.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    pub user: UserId,
    /// The number of the generation; 0 is the first, which has no row.
    pub generation: u32,
    /// Its beginning, by the database's clock.
    pub began_at: OffsetDateTime,
}

from_row!(Generation { user: "user_id", generation, began_at: "ended_at" });

/// Begins a new generation of a user's sessions in a transaction, and returns its number. The user
/// needs no account: a token is enough to have sessions. The number is the time in seconds since 1970, and higher than
/// the one before: so it does not come again when the row was lost with commits, or went back to an older copy.
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn begin_generation(
    transaction: &mut MySqlConnection,
    user: UserId,
) -> sqlx::Result<u32> {
    sqlx::query(
        "INSERT INTO session_generations (user_id, generation, ended_at) \
         VALUES (?, UNIX_TIMESTAMP(), UTC_TIMESTAMP(6)) \
         ON DUPLICATE KEY UPDATE generation = GREATEST(generation + 1, UNIX_TIMESTAMP()), \
          ended_at = UTC_TIMESTAMP(6)",
    )
    .bind(user.get())
    .execute(&mut *transaction)
    .await?;
    sqlx::query_scalar("SELECT generation FROM session_generations WHERE user_id = ?")
        .bind(user.get())
        .fetch_one(transaction)
        .await
}

/// Ends all sessions of a user, and returns the generation that begins.
///
/// # Errors
/// The database's; after an error of the COMMIT the sessions may have ended.
pub async fn end_all(pool: &Database, user: UserId) -> sqlx::Result<u32> {
    transact(pool, |transaction| Box::pin(answered(begin_generation(transaction, user)))).await
}

/// The present generation of a user's sessions.
pub async fn generation(pool: &Database, user: UserId) -> sqlx::Result<u32> {
    Ok(sqlx::query_scalar("SELECT generation FROM session_generations WHERE user_id = ?")
        .bind(user.get())
        .first(pool)
        .await?
        .unwrap_or(0))
}

/// Reads the generations that began after `newest`, with some that began shortly before; without
/// `newest`, all that may have ended a token that has not expired.
pub async fn generations_since(
    pool: &Database,
    newest: Option<OffsetDateTime>,
) -> sqlx::Result<Vec<Generation>> {
    let statement = format!(
        "SELECT {} FROM session_generations \
         WHERE ended_at > COALESCE(? - INTERVAL {GENERATION_OVERLAP_MINUTES} MINUTE, \
          UTC_TIMESTAMP(6) - INTERVAL {GENERATION_DAYS} DAY)",
        Generation::COLUMNS
    );
    sqlx::query_as(&statement).bind(newest).all(pool).await
}
