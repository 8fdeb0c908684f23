//! The accounts with a role above buyer. Each change and its line in the log of actions are one
//! transaction, and a role that changes ends the sessions of the account: a token carries the role.

use crate::Database;
use serde_json::{Value, json};
use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlConnection, Row};
use time::OffsetDateTime;

use super::actions::{self, Actor};
use super::link::{TRANSACTION_MAX, answered, within};
use super::sessions;
use super::transaction::transact;
use super::users::{self, NewAccount};
use shop_domain::{UserId, Username};

/// An account that may run sales.
#[derive(Clone, Debug)]
pub struct Operator {
    pub id: UserId,
    /// The name, as it was typed.
    pub username: String,
    /// `operator` or `admin`.
    pub role: String,
    /// The time of the sign-up.
    pub created_at: OffsetDateTime,
}

/// Lists the operators, oldest first.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<Operator>> {
    let rows = sqlx::query_as(
        "SELECT id, username, role, created_at FROM users \
         WHERE role <> 'buyer' AND NOT demo ORDER BY id",
    )
    .fetch_all(pool);
    answered(rows).await
}

/// Creates an operator's account; `None` when the name, or one that looks like it, is taken.
pub async fn create(pool: &Database, new: &NewAccount<'_>) -> sqlx::Result<Option<UserId>> {
    let now = OffsetDateTime::now_utc();
    let created = transact(pool, |transaction| {
        Box::pin(async move {
            let Some(user) = users::insert(&mut **transaction, new, now).await? else {
                return Ok(None);
            };
            let detail = json!({ "username": new.username.typed(), "role": new.role });
            record(transaction, user, "operator_created", &detail).await?;
            Ok(Some(user))
        })
    });
    within(TRANSACTION_MAX, created).await
}

/// Gives an account a role and ends its sessions; `None` when there is no such account.
pub async fn set_role(
    pool: &Database,
    username: &Username,
    role: &str,
) -> sqlx::Result<Option<UserId>> {
    let changed = transact(pool, |transaction| {
        Box::pin(async move {
            let Some((user, before)) = find(transaction, username).await? else { return Ok(None) };
            sqlx::query("UPDATE users SET role = ? WHERE id = ?")
                .bind(role)
                .bind(user.get())
                .execute(&mut **transaction)
                .await?;
            sessions::begin_generation(transaction, user).await?;
            let detail = json!({ "username": username.typed(), "role": role, "before": before });
            record(transaction, user, "role_changed", &detail).await?;
            Ok(Some(user))
        })
    });
    within(TRANSACTION_MAX, changed).await
}

/// Sets the password of an account and ends its sessions; `None` when there is no such account.
pub async fn set_password(
    pool: &Database,
    username: &Username,
    password_hash: &str,
) -> sqlx::Result<Option<UserId>> {
    let changed = transact(pool, |transaction| {
        Box::pin(async move {
            let Some((user, _)) = find(transaction, username).await? else { return Ok(None) };
            sqlx::query("UPDATE users SET password_hash = ? WHERE id = ?")
                .bind(password_hash)
                .bind(user.get())
                .execute(&mut **transaction)
                .await?;
            sessions::begin_generation(transaction, user).await?;
            let detail = json!({ "username": username.typed() });
            record(transaction, user, "password_set", &detail).await?;
            Ok(Some(user))
        })
    });
    within(TRANSACTION_MAX, changed).await
}

/// The id and the role of an account, whose row is locked.
async fn find(
    transaction: &mut MySqlConnection,
    username: &Username,
) -> sqlx::Result<Option<(UserId, String)>> {
    sqlx::query_as("SELECT id, role FROM users WHERE username_folded = ? AND NOT demo FOR UPDATE")
        .bind(username.folded())
        .fetch_optional(transaction)
        .await
}

/// Writes the line of a change that was made on the command line: the account is the operator.
async fn record(
    transaction: &mut MySqlConnection,
    user: UserId,
    action: &'static str,
    detail: &Value,
) -> sqlx::Result<()> {
    let actor = Actor { user, address: None, now: OffsetDateTime::now_utc() };
    actions::record(transaction, &actor, action, None, detail).await
}

impl FromRow<'_, MySqlRow> for Operator {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            username: row.try_get("username")?,
            role: row.try_get("role")?,
            created_at: row.try_get("created_at")?,
        })
    }
}
