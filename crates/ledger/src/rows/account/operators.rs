//! The accounts with a role above buyer. Each change and its line in the log of actions are one
//! transaction, and a role that changes ends the sessions of the account: a token carries the role.

use serde_json::{Value, json};
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::actions::{self, Actor};
use super::sessions;
use super::users::{self, NewAccount};
use mysql_connection::statement::{Binds, Read};
use mysql_connection::{Database, transact, with_new_id};
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

from_row!(Operator { id, username, role, created_at });

/// Lists the operators, oldest first.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<Operator>> {
    let columns = Operator::COLUMNS;
    let statement =
        format!("SELECT {columns} FROM users WHERE role <> 'buyer' AND NOT demo ORDER BY id");
    sqlx::query_as(&statement).all(pool).await
}

/// Returns whether a user may run sales, as far as the ledger knows: by the role of the account. With `by_provider` each
/// user of the identity provider may, because only the provider knows their roles.
pub async fn may_operate(pool: &Database, user: UserId, by_provider: bool) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT COUNT(*) > 0 FROM users LEFT JOIN subjects ON user_id = id \
         WHERE id = ? AND (role <> 'buyer' OR (? AND user_id IS NOT NULL))",
    )
    .binds((user.get(), by_provider))
    .one(pool)
    .await
}

/// Creates an operator's account; `None` when the name, or one that looks like it, is taken.
pub async fn create(pool: &Database, new: &NewAccount<'_>) -> sqlx::Result<Option<UserId>> {
    let now = OffsetDateTime::now_utc();
    let created = with_new_id(|| {
        transact(pool, move |transaction| {
            Box::pin(async move {
                let user = UserId::generate();
                users::insert(&mut **transaction, user, new, now).await?;
                let detail = json!({ "username": new.username.typed(), "role": new.role });
                record(transaction, user, "operator_created", &detail).await?;
                Ok(user)
            })
        })
    });
    users::unless_taken(created.await)
}

/// Gives an account a role and ends its sessions; `None` when there is no such account.
pub async fn set_role(
    pool: &Database,
    username: &Username,
    role: &str,
) -> sqlx::Result<Option<UserId>> {
    set(pool, username, ("role", role), |before| {
        ("role_changed", json!({ "username": username.typed(), "role": role, "before": before }))
    })
    .await
}

/// Sets the password of an account and ends its sessions; `None` when there is no such account.
pub async fn set_password(
    pool: &Database,
    username: &Username,
    password_hash: &str,
) -> sqlx::Result<Option<UserId>> {
    set(pool, username, ("password_hash", password_hash), |_| {
        ("password_set", json!({ "username": username.typed() }))
    })
    .await
}

/// Sets one column of an account. `line` makes the action and its detail for the log from the role before.
async fn set(
    pool: &Database,
    username: &Username,
    (column, value): (&'static str, &str),
    line: impl FnOnce(&str) -> (&'static str, Value) + Send,
) -> sqlx::Result<Option<UserId>> {
    let changed = transact(pool, |transaction| {
        Box::pin(async move {
            let Some((user, role)) = find(transaction, username).await? else { return Ok(None) };
            let update = format!("UPDATE users SET {column} = ? WHERE id = ?");
            sqlx::query(&update).bind(value).bind(user.get()).execute(&mut **transaction).await?;
            sessions::begin_generation(transaction, user).await?;
            let (action, detail) = line(&role);
            record(transaction, user, action, &detail).await?;
            Ok(Some(user))
        })
    });
    changed.await
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
