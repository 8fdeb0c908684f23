//! The accounts' rows. The purchase path does not read them: a valid token is enough to buy.

use sqlx::MySqlExecutor;
use time::OffsetDateTime;

use super::sessions;
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, Fault, confirmed, is_taken_id, transact, with_new_id};
use shop_domain::columns::Text;
use shop_domain::{UserId, Username};

/// Reads accounts with the generation of their sessions.
const SELECT: &str = "SELECT id, username_folded, password_hash, role, demo, \
     generation \
     FROM users LEFT JOIN session_generations ON user_id = id";

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
    unless_taken(with_new_id(|| confirmed(pool, insert(pool, UserId::generate(), new, now))).await)
}

/// Creates a demo account with a number that pages name, if the number is free, or else with a new one; `None` when
/// the name is taken.
pub async fn create_demo(
    pool: &Database,
    id: UserId,
    new: &NewAccount<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<Option<UserId>> {
    match confirmed(pool, insert(pool, id, new, now)).await {
        Err(error) if is_taken_id(&error) => create(pool, new, now).await,
        created => unless_taken(created),
    }
}

/// `None` for the error that a name is taken.
pub(super) fn unless_taken<T>(created: sqlx::Result<T>) -> sqlx::Result<Option<T>> {
    match created {
        Err(error) if Fault::of(&error) == Fault::Duplicate => Ok(None),
        created => created.map(Some),
    }
}

/// Inserts an account, within a transaction or not.
pub(super) async fn insert(
    database: impl MySqlExecutor<'_>,
    id: UserId,
    new: &NewAccount<'_>,
    now: OffsetDateTime,
) -> sqlx::Result<UserId> {
    sqlx::query(
        "INSERT INTO users (id, username, username_folded, username_skeleton, password_hash, role, \
         demo, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .binds((
        id.get(),
        new.username.typed(),
        new.username.folded(),
        new.username.skeleton(),
        new.password_hash,
        new.role,
        new.demo,
        now,
    ))
    .run(database)
    .await?;
    Ok(id)
}

/// Finds an account by its folded name.
pub async fn find(pool: &Database, username_folded: &str) -> sqlx::Result<Option<Account>> {
    let statement = format!("{SELECT} WHERE username_folded = ?");
    sqlx::query_as(&statement).bind(username_folded).first(pool).await
}

/// Finds an account, and its folded name, by its id.
pub async fn find_by_id(pool: &Database, id: UserId) -> sqlx::Result<Option<Account>> {
    let statement = format!("{SELECT} WHERE id = ?");
    sqlx::query_as(&statement).bind(id.get()).first(pool).await
}

/// The name of a user, as pages show it.
pub async fn name_of(pool: &Database, id: UserId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar("SELECT username FROM users WHERE id = ?").bind(id.get()).first(pool).await
}

/// Replaces the hash `old` of a password, if it is still the account's, and ends all sessions of
/// the account, and returns the generation that begins, or `None` when the hash was another one.
///
/// # Errors
/// The database's; after an error of the COMMIT the password may have changed.
pub async fn change_password(
    pool: &Database,
    id: UserId,
    (old, new): (&str, &str),
) -> sqlx::Result<Option<u32>> {
    let changed = transact(pool, |transaction| {
        Box::pin(async move {
            let updated = sqlx::query(
                "UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?",
            )
            .binds((new, id.get(), old))
            .execute(&mut **transaction)
            .await?;
            match updated.rows_affected() {
                0 => Ok(None),
                _ => sessions::begin_generation(transaction, id).await.map(Some),
            }
        })
    });
    changed.await
}

from_row!(Account {
    id, username_folded as Text, password_hash, role, demo,
    generation as Option<u32> => Option::unwrap_or_default,
});
