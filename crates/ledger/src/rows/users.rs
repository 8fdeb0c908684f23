//! The accounts' rows. The purchase path does not read them: a valid token is enough to buy.

use crate::Database;
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlExecutor, Row};
use time::OffsetDateTime;

use super::columns::Text;
use super::items::out_of_range;
use super::link::{TRANSACTION_MAX, answered, within};
use super::sessions;
use super::transaction::{confirmed, transact};
use shop_domain::{UserId, Username, username};

/// Reads accounts with the generation of their sessions.
const SELECT: &str = "SELECT id, username_folded, password_hash, role, demo, \
     generation \
     FROM users LEFT JOIN session_generations ON user_id = id";
/// Older accounts whose skeletons are filled in by one read.
const FILL_MAX: u32 = 500;

/// The columns of a new account.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount<'a> {
    /// The name; its folded form and its skeleton must both be unique.
    pub username: &'a Username,
    /// Argon2id in PHC form.
    pub password_hash: &'a str,
    /// `buyer`, `operator` or `admin`.
    pub role: &'a str,
    /// Whether it is a demo account, whose password is public.
    pub demo: bool,
}

/// The columns of an account that sign-in needs.
#[derive(Clone, Debug)]
pub struct Account {
    pub id: UserId,
    /// The folded name.
    pub username_folded: String,
    /// Argon2id in PHC form.
    pub password_hash: String,
    /// `buyer`, `operator` or `admin`.
    pub role: String,
    /// Whether it is a demo account, whose password is public.
    pub demo: bool,
    /// The present generation of its sessions.
    pub generation: u32,
}

/// Creates an account; `None` when the name, or one that looks like it, is taken.
pub async fn create(
    pool: &Database,
    new: &NewAccount<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    confirmed(pool, insert(pool, new, now)).await
}

/// Inserts an account, within a transaction or not; `None` when the name is taken.
pub(super) async fn insert(
    database: impl MySqlExecutor<'_>,
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
    .execute(database)
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
pub async fn find(pool: &Database, username_folded: &str) -> sqlx::Result<Option<Account>> {
    let statement = format!("{SELECT} WHERE username_folded = ?");
    let row = sqlx::query_as(&statement).bind(username_folded).fetch_optional(pool);
    answered(row).await
}

/// Finds an account, and its folded name, by its id.
pub async fn find_by_id(pool: &Database, id: UserId) -> sqlx::Result<Option<Account>> {
    let statement = format!("{SELECT} WHERE id = ?");
    let row = sqlx::query_as(&statement).bind(id.get()).fetch_optional(pool);
    answered(row).await
}

/// The name of a user, as pages show it.
pub async fn name_of(pool: &Database, id: UserId) -> sqlx::Result<Option<String>> {
    let name = sqlx::query_scalar("SELECT username FROM users WHERE id = ?").bind(id.get());
    answered(name.fetch_optional(pool)).await
}

/// Replaces the hash `old` of a password, if it is still the account's, and ends all sessions of
/// the account; answers the generation that begins, or `None` when the hash was another one.
///
/// # Errors
/// The database's; after an error of the COMMIT the password may have changed.
pub async fn change_password(
    pool: &Database,
    id: UserId,
    (old, new): (&str, &str),
) -> sqlx::Result<Option<u32>> {
    let changing = transact(pool, |transaction| {
        Box::pin(async move {
            let updated = sqlx::query(
                "UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?",
            )
            .bind(new)
            .bind(id.get())
            .bind(old)
            .execute(&mut **transaction)
            .await?;
            match updated.rows_affected() {
                0 => Ok(None),
                _ => sessions::begin_generation(transaction, id).await.map(Some),
            }
        })
    });
    within(TRANSACTION_MAX, changing).await
}

impl FromRow<'_, MySqlRow> for Account {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            username_folded: row.try_get::<Text, _>("username_folded")?.0,
            password_hash: row.try_get("password_hash")?,
            role: row.try_get("role")?,
            demo: row.try_get("demo")?,
            generation: row.try_get::<Option<u32>, _>("generation")?.unwrap_or(0),
        })
    }
}

/// Computes the skeletons of accounts that were made before skeletons existed. Where two of them
/// look alike, the older one gets it; the other keeps its name, which cannot be registered again.
pub async fn fill_skeletons(pool: &Database) -> sqlx::Result<()> {
    let mut after = 0_i64;
    loop {
        let rows = sqlx::query_as(
            "SELECT id, username FROM users \
             WHERE id > ? AND username_skeleton IS NULL AND username_folded NOT LIKE 'oidc:%' \
             ORDER BY id LIMIT ?",
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

async fn fill_skeleton(pool: &Database, id: i64, skeleton: &str) -> sqlx::Result<()> {
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
