//! Accounts. Nothing on the purchase path comes here: a token is all it takes to buy.

use sqlx::{MySqlPool, Row};
use time::OffsetDateTime;

use super::items::parsed;
use super::link::answered;
use crate::domain::UserId;

/// What an account is made from.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount<'a> {
    /// As the user typed it.
    pub username: &'a str,
    /// The form that must be unique.
    pub username_folded: &'a str,
    /// Argon2id in PHC form.
    pub password_hash: &'a str,
    /// `buyer` or `admin`.
    pub role: &'a str,
    /// An account whose password everybody knows.
    pub demo: bool,
}

/// An account as sign-in needs it.
#[derive(Clone, Debug)]
pub struct Account {
    /// The id.
    pub id: UserId,
    /// Argon2id in PHC form.
    pub password_hash: String,
    /// `buyer` or `admin`.
    pub role: String,
    /// An account whose password everybody knows.
    pub demo: bool,
}

/// Creates an account; `None` when the folded name is taken.
///
/// # Errors
/// The database's.
pub async fn create(
    pool: &MySqlPool,
    new: &NewAccount<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    let inserted = sqlx::query(
        "INSERT INTO users (username, username_folded, password_hash, role, demo, created_at) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(new.username)
    .bind(new.username_folded)
    .bind(new.password_hash)
    .bind(new.role)
    .bind(new.demo)
    .bind(now)
    .execute(pool)
    .await;
    match inserted {
        Ok(done) => {
            let id = i64::try_from(done.last_insert_id()).ok().and_then(UserId::new);
            parsed("id", id).map(Some)
        }
        Err(error) if super::Fault::of(&error) == super::Fault::Duplicate => Ok(None),
        Err(error) => Err(error),
    }
}

/// Finds an account by its folded name.
///
/// # Errors
/// The database's.
pub async fn find(pool: &MySqlPool, username_folded: &str) -> sqlx::Result<Option<Account>> {
    let row =
        sqlx::query("SELECT id, password_hash, role, demo FROM users WHERE username_folded = ?")
            .bind(username_folded)
            .fetch_optional(pool);
    let row = answered(row).await?;
    row.map(|row| {
        Ok(Account {
            id: parsed("id", UserId::new(row.try_get("id")?))?,
            password_hash: row.try_get("password_hash")?,
            role: row.try_get("role")?,
            demo: row.try_get("demo")?,
        })
    })
    .transpose()
}
