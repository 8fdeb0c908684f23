//! Whether the database takes rows, and enforces the CHECK constraints that the arbiter relies on.

use crate::sql::{Database, Fault, begin};

/// Tries a row that `buyer_limits` allows, and then one that it forbids, in a transaction that is
/// rolled back; `false` when the database takes both. No item and no buyer has their ids.
///
/// A server whose disk is full still refuses the forbidden row, but takes no other one.
///
/// Servers that do not know CHECK constraints accept them silently and ignore them, so only a row
/// that violates one proves that they are enforced.
///
/// # Errors
/// The database's, when it can say neither, such as 1114 (its disk is full).
pub async fn are_enforced(pool: &Database) -> sqlx::Result<bool> {
    let mut transaction = begin(pool).await?;
    let mut tried = Ok(());
    for row in ["(-1, -2, 1, 1)", "(-1, -1, 1, 0)"] {
        let insert =
            format!("INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES {row}");
        tried = sqlx::query(&insert).execute(&mut *transaction).await.map(drop);
        if tried.is_err() {
            break;
        }
    }
    transaction.rollback().await?;
    match tried {
        Ok(_) => Ok(false),
        Err(error) if Fault::of(&error) == Fault::CheckViolated => Ok(true),
        Err(error) => Err(error),
    }
}
