//! The accounts' rows. The purchase path does not read them: a valid token is enough to buy.

use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlPool, Row};
use time::OffsetDateTime;

use super::items::out_of_range;
use super::link::answered;
use crate::domain::{UserId, Username, username};

/// Older accounts whose skeletons are filled in by one read.
const FILL_MAX: u32 = 500;

/// The columns of a new account.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount<'a> {
    /// The name; its folded form and its skeleton must both be unique.
    pub username: &'a Username,
    /// Argon2id in PHC form.
    pub password_hash: &'a str,
    /// `buyer` or `admin`.
    pub role: &'a str,
    /// Whether it is a demo account, whose password is public.
    pub demo: bool,
}

/// The columns of an account that sign-in needs.
#[derive(Clone, Debug)]
pub struct Account {
    /// The id.
    pub id: UserId,
    /// Argon2id in PHC form.
    pub password_hash: String,
    /// `buyer` or `admin`.
    pub role: String,
    /// Whether it is a demo account, whose password is public.
    pub demo: bool,
}

/// Creates an account; `None` when the name, or one that looks like it, is taken.
///
/// # Errors
/// The database's.
pub async fn create(
    pool: &MySqlPool,
    new: &NewAccount<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    let inserted = sqlx::query(
        "INSERT INTO users (username, username_folded, username_skeleton, password_hash, role, \
         demo, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(new.username.typed())
    .bind(new.username.folded())
    .bind(new.username.skeleton())
    .bind(new.password_hash)
    .bind(new.role)
    .bind(new.demo)
    .bind(now)
    .execute(pool)
    .await;
    match inserted {
        Ok(done) => {
            let id = i64::try_from(done.last_insert_id()).ok().and_then(UserId::new);
            id.map(Some).ok_or_else(|| out_of_range("id"))
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
        sqlx::query_as("SELECT id, password_hash, role, demo FROM users WHERE username_folded = ?")
            .bind(username_folded)
            .fetch_optional(pool);
    answered(row).await
}

impl FromRow<'_, MySqlRow> for Account {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            password_hash: row.try_get("password_hash")?,
            role: row.try_get("role")?,
            demo: row.try_get("demo")?,
        })
    }
}

/// Computes the skeletons of accounts that were made before skeletons existed. Where two of them
/// look alike, the older one gets it; the other keeps its name, which cannot be registered again.
///
/// # Errors
/// The database's.
pub async fn fill_skeletons(pool: &MySqlPool) -> sqlx::Result<()> {
    let mut after = 0_i64;
    loop {
        let rows = sqlx::query_as(
            "SELECT id, username FROM users \
             WHERE id > ? AND username_skeleton IS NULL ORDER BY id LIMIT ?",
        )
        .bind(after)
        .bind(FILL_MAX)
        .fetch_all(pool);
        let rows: Vec<(i64, String)> = answered(rows).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for (id, username) in rows {
            fill_skeleton(pool, id, &username::skeleton(&username)).await?;
            after = id;
        }
    }
}

async fn fill_skeleton(pool: &MySqlPool, id: i64, skeleton: &str) -> sqlx::Result<()> {
    if skeleton.chars().count() > Username::SKELETON_LENGTH_MAX {
        return Ok(());
    }
    let filled = sqlx::query(
        "UPDATE users SET username_skeleton = ? WHERE id = ? AND username_skeleton IS NULL",
    )
    .bind(skeleton)
    .bind(id)
    .execute(pool);
    match answered(filled).await {
        Err(error) if super::Fault::of(&error) != super::Fault::Duplicate => Err(error),
        _ => Ok(()),
    }
}
