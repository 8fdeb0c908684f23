//! Whether the database enforces the CHECK constraints that the arbiter relies on.

use sqlx::MySqlPool;

use crate::store::mysql::Fault;

/// Tries a row that `buyer_limits` forbids, in a transaction that is rolled back; `false` when the
/// database takes it. No item and no buyer has its ids.
///
/// Servers that do not know CHECK constraints accept them silently and ignore them, so only a row
/// that violates one proves that they are enforced.
///
/// # Errors
/// The database's, when it can say neither.
pub async fn are_enforced(pool: &MySqlPool) -> sqlx::Result<bool> {
    let mut transaction = pool.begin().await?;
    let tried = sqlx::query(
        "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (-1, -1, 1, 0)",
    )
    .execute(&mut *transaction)
    .await;
    transaction.rollback().await?;
    match tried {
        Ok(_) => Ok(false),
        Err(error) if Fault::of(&error) == Fault::CheckViolated => Ok(true),
        Err(error) => Err(error),
    }
}
