//! Payments that a provider has received, and refunds that it owes.

use std::time::Duration;

use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlConnection, MySqlPool, Row};
use time::OffsetDateTime;

use super::columns::Text;
use super::link::answered;
use super::placed::Placed;
use crate::domain::payment::{PaymentId, PaymentStatus, RefundReason};
use crate::domain::{Cents, OrderId};

const COLUMNS: &str =
    "id, order_id, amount_cents, status, reason, failures, last_error, created_at, changed_at";
/// The further columns of a [`Placed`] payment: its order's item. A payment for an order that does not exist
/// is of no item.
const PLACE: &str = "(SELECT item_id FROM orders WHERE orders.id = payments.order_id) AS item_id, \
     (SELECT home_epoch FROM orders JOIN stock ON stock.item_id = orders.item_id \
      WHERE orders.id = payments.order_id) AS home_epoch";
/// The longest error that is stored, in characters.
const ERROR_LENGTH_MAX: usize = 300;

/// A payment.
#[derive(Clone, Debug)]
pub struct Payment {
    /// The provider's id.
    pub id: PaymentId,
    /// The order; it may not exist.
    pub order: OrderId,
    /// The money that came.
    pub amount: Cents,
    /// What became of it.
    pub status: PaymentStatus,
    /// Why it has to go back.
    pub reason: Option<RefundReason>,
    /// Failed tries to tell the provider.
    pub failures: u32,
    /// The last of these failures.
    pub last_error: Option<String>,
    /// The time at which it was first heard of.
    pub created_at: OffsetDateTime,
    /// The time of its last change.
    pub changed_at: OffsetDateTime,
}

/// Notes a message of the provider; `false` when it was noted before.
///
/// # Errors
/// The database's.
pub async fn note_message(connection: &mut MySqlConnection, id: &str) -> sqlx::Result<bool> {
    let noted = sqlx::query(
        "INSERT IGNORE INTO payment_messages (id, received_at) VALUES (?, UTC_TIMESTAMP(6))",
    )
    .bind(id)
    .execute(connection);
    Ok(answered(noted).await?.rows_affected() == 1)
}

/// Deletes at most `limit` messages that are older than `days`.
///
/// # Errors
/// The database's.
pub async fn forget_messages(pool: &MySqlPool, days: u32, limit: u32) -> sqlx::Result<u64> {
    let deleted = sqlx::query(
        "DELETE FROM payment_messages WHERE received_at < UTC_TIMESTAMP(6) - INTERVAL ? DAY LIMIT ?",
    )
    .bind(days)
    .bind(limit)
    .execute(pool);
    Ok(answered(deleted).await?.rows_affected())
}

/// Finds and locks a payment.
///
/// # Errors
/// The database's.
pub async fn find_for_update(
    connection: &mut MySqlConnection,
    id: &PaymentId,
) -> sqlx::Result<Option<Payment>> {
    let statement = format!("SELECT {COLUMNS} FROM payments WHERE id = ? FOR UPDATE");
    answered(sqlx::query_as(&statement).bind(id.as_str()).fetch_optional(connection)).await
}

/// Finds a payment, with the epoch of its item.
///
/// # Errors
/// The database's.
pub async fn find_placed(
    pool: &MySqlPool,
    id: &PaymentId,
) -> sqlx::Result<Option<Placed<Payment>>> {
    let statement = format!("SELECT {COLUMNS}, {PLACE} FROM payments WHERE id = ?");
    answered(sqlx::query_as(&statement).bind(id.as_str()).fetch_optional(pool)).await
}

/// Inserts a payment.
///
/// # Errors
/// The database's.
pub async fn insert(
    connection: &mut MySqlConnection,
    (id, order, amount): (&PaymentId, OrderId, Cents),
    (status, reason): (PaymentStatus, Option<RefundReason>),
) -> sqlx::Result<()> {
    let inserted = sqlx::query(
        "INSERT INTO payments \
         (id, order_id, amount_cents, status, reason, next_try_at, created_at, changed_at) \
         VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
    )
    .bind(id.as_str())
    .bind(order.to_string())
    .bind(amount.cents())
    .bind(status.as_str())
    .bind(reason.map(RefundReason::as_str))
    .execute(connection);
    answered(inserted).await?;
    Ok(())
}

/// Sets a payment `refunded`; `false` if there is none or it is so already.
///
/// # Errors
/// The database's.
pub async fn set_refunded(connection: &mut MySqlConnection, id: &PaymentId) -> sqlx::Result<bool> {
    let set = sqlx::query(
        "UPDATE payments SET status = 'refunded', last_error = NULL, changed_at = UTC_TIMESTAMP(6) \
         WHERE id = ? AND status <> 'refunded'",
    )
    .bind(id.as_str())
    .execute(connection);
    Ok(answered(set).await?.rows_affected() == 1)
}

/// Lists at most `limit` refunds that the provider is to be told of now.
///
/// # Errors
/// The database's.
pub async fn due_refunds(pool: &MySqlPool, limit: u32) -> sqlx::Result<Vec<Placed<Payment>>> {
    let statement = format!(
        "SELECT {COLUMNS}, {PLACE} FROM payments WHERE status = 'refund_wanted' \
         AND next_try_at <= UTC_TIMESTAMP(6) ORDER BY next_try_at LIMIT ?"
    );
    answered(sqlx::query_as(&statement).bind(limit).fetch_all(pool)).await
}

/// Notes that the provider was told of a refund.
///
/// # Errors
/// The database's.
pub async fn refund_requested(
    connection: &mut MySqlConnection,
    id: &PaymentId,
) -> sqlx::Result<()> {
    let noted = sqlx::query(
        "UPDATE payments SET status = 'refund_requested', last_error = NULL, \
         changed_at = UTC_TIMESTAMP(6) WHERE id = ? AND status = 'refund_wanted'",
    )
    .bind(id.as_str())
    .execute(connection);
    answered(noted).await?;
    Ok(())
}

/// Notes that the provider could not be told of a refund; the next try is after `pause`.
///
/// # Errors
/// The database's.
pub async fn refund_failed(
    connection: &mut MySqlConnection,
    id: &PaymentId,
    error: &str,
    pause: Duration,
) -> sqlx::Result<()> {
    let error: String = error.chars().take(ERROR_LENGTH_MAX).collect();
    let noted = sqlx::query(
        "UPDATE payments SET failures = failures + 1, last_error = ?, \
         next_try_at = UTC_TIMESTAMP(6) + INTERVAL ? SECOND WHERE id = ?",
    )
    .bind(error)
    .bind(pause.as_secs())
    .bind(id.as_str())
    .execute(connection);
    answered(noted).await?;
    Ok(())
}

/// Counts the payments that have to go back and are not known to have done so.
///
/// # Errors
/// The database's.
pub async fn count_open_refunds(pool: &MySqlPool) -> sqlx::Result<i64> {
    let count = sqlx::query_scalar(
        "SELECT COUNT(*) FROM payments WHERE status IN ('refund_wanted', 'refund_requested')",
    );
    answered(count.fetch_one(pool)).await
}

/// Lists at most `limit` payments: of one status or of all, in the order of their ids, behind `after`.
///
/// # Errors
/// The database's.
pub async fn list(
    pool: &MySqlPool,
    status: Option<PaymentStatus>,
    after: &str,
    limit: u32,
) -> sqlx::Result<Vec<Placed<Payment>>> {
    let of_status = if status.is_some() { "AND status = ?" } else { "" };
    let statement = format!(
        "SELECT {COLUMNS}, {PLACE} FROM payments WHERE id > ? {of_status} ORDER BY id LIMIT ?"
    );
    let mut query = sqlx::query_as(&statement).bind(after);
    if let Some(status) = status {
        query = query.bind(status.as_str());
    }
    answered(query.bind(limit).fetch_all(pool)).await
}

impl FromRow<'_, MySqlRow> for Payment {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        let Text(id) = row.try_get("id")?;
        let out_of_range = || sqlx::Error::Decode("the value is out of its range".into());
        let status: String = row.try_get("status")?;
        let reason: Option<String> = row.try_get("reason")?;
        Ok(Self {
            id: PaymentId::parse(&id).ok_or_else(out_of_range)?,
            order: row.try_get("order_id")?,
            amount: row.try_get("amount_cents")?,
            status: PaymentStatus::parse(&status).ok_or_else(out_of_range)?,
            reason: reason.as_deref().and_then(RefundReason::parse),
            failures: row.try_get("failures")?,
            last_error: row.try_get("last_error")?,
            created_at: row.try_get("created_at")?,
            changed_at: row.try_get("changed_at")?,
        })
    }
}
