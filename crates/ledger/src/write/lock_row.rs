//! The lock of a stock row by a purchase.

use std::time::Instant;

use sqlx::MySqlConnection;

use shop_domain::{Outcome, Purchase, Refusal};

/// Locks the stock row until the transaction ends. Answers the units left under the lock, or the
/// outcome when they are too few.
pub(super) async fn lock_row(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<Result<i64, Outcome>> {
    let left: Option<i64> =
        sqlx::query_scalar("SELECT available FROM stock WHERE item_id = ? FOR UPDATE")
            .bind(purchase.item.id.get())
            .fetch_optional(connection)
            .await?;
    // The lock has kept the row as it is now.
    let asked_at = Some(Instant::now());
    Ok(match left {
        None => Err(Outcome::Refused(Refusal::ItemNotFound)),
        Some(left) if left >= purchase.quantity.signed() => Ok(left),
        Some(_) => Err(Outcome::Refused(Refusal::SoldOut { asked_at })),
    })
}
