//! Payments that a provider has received, and refunds that it owes.

use std::time::Duration;

use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use mysql_connection::Database;
use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::payment::{CurrencyCode, PaymentId, PaymentStatus, ReceivedPayment, RefundReason};
use shop_domain::{Cents, OrderId};

const COLUMNS: &str = Payment::COLUMNS;
/// The longest error that is stored, in characters.
const ERROR_LENGTH_MAX: usize = 300;

/// A payment.
#[derive(Clone, Debug)]
pub struct Payment {
    /// The provider's id.
    pub id: PaymentId,
    /// The order; it may not exist.
    pub order: OrderId,
    /// The money that came; 0 while only a refund of it was told.
    pub amount: Cents,
    pub currency: CurrencyCode,
    /// The money of it that went back.
    pub refunded: Cents,
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

impl Payment {
    /// Returns whether only a refund of it was told, and the payment itself was not.
    pub fn is_refund_alone(&self) -> bool {
        self.status == PaymentStatus::Refunded && self.amount.cents() == 0
    }

    /// The money that has not gone back, in cents.
    pub fn left_cents(&self) -> i64 {
        (self.amount.cents() - self.refunded.cents()).max(0)
    }
}

/// Notes a message of the provider; `false` when it was noted before.
pub async fn note_message(connection: &mut MySqlConnection, id: &str) -> sqlx::Result<bool> {
    let noted = sqlx::query(
        "INSERT IGNORE INTO payment_messages (id, received_at) VALUES (?, UTC_TIMESTAMP(6))",
    )
    .bind(id)
    .changed(connection)
    .await?;
    Ok(noted == 1)
}

/// Notes a refund by its id, or by its message if that names none; `false` when it was noted before. Unlike the list of
/// messages, this is kept.
pub async fn note_refund(
    connection: &mut MySqlConnection,
    refund: &ReceivedPayment,
) -> sqlx::Result<bool> {
    let named = refund.refund.as_ref().map_or(refund.message.as_str(), PaymentId::as_str);
    let noted = sqlx::query(
        "INSERT IGNORE INTO payment_refunds (payment_id, message_id, amount_cents, created_at) \
         VALUES (?, ?, ?, UTC_TIMESTAMP(6))",
    )
    .binds((refund.id.as_str(), named, refund.amount.cents()))
    .changed(connection)
    .await?;
    Ok(noted == 1)
}

/// Deletes at most `limit` messages that are older than `days`.
pub async fn forget_messages(pool: &Database, days: u32, limit: u32) -> sqlx::Result<u64> {
    sqlx::query(
        "DELETE FROM payment_messages WHERE received_at < UTC_TIMESTAMP(6) - INTERVAL ? DAY LIMIT ?",
    )
    .binds((days, limit)).changed(pool).await
}

/// Finds and locks a payment.
pub async fn find_for_update(
    connection: &mut MySqlConnection,
    id: &PaymentId,
) -> sqlx::Result<Option<Payment>> {
    let statement = format!("SELECT {COLUMNS} FROM payments WHERE id = ? FOR UPDATE");
    sqlx::query_as(&statement).bind(id.as_str()).first(connection).await
}

/// Finds a payment.
pub async fn find(
    executor: impl MySqlExecutor<'_>,
    id: &PaymentId,
) -> sqlx::Result<Option<Payment>> {
    let statement = format!("SELECT {COLUMNS} FROM payments WHERE id = ?");
    sqlx::query_as(&statement).bind(id.as_str()).first(executor).await
}

/// Inserts a payment: refunded without a reason, it is one of which only a refund was told.
pub async fn insert(
    connection: &mut MySqlConnection,
    received: &ReceivedPayment,
    (status, reason): (PaymentStatus, Option<RefundReason>),
) -> sqlx::Result<()> {
    let cents = received.amount.cents();
    let (paid, refunded) = match (status, reason) {
        (PaymentStatus::Refunded, None) => (0, cents),
        _ => (cents, 0),
    };
    sqlx::query(
        "INSERT INTO payments (id, order_id, amount_cents, currency, refunded_cents, status, reason, \
         next_try_at, created_at, changed_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
    )
    .binds((
        received.id.as_str(),
        received.order.to_string(),
        paid,
        received.currency.as_str(),
        refunded,
        status.as_str(),
        reason.map(RefundReason::as_str),
    ))
    .run(connection)
    .await
}

/// Completes a payment of which only a refund was told: it pays nothing. Returns the reason why the rest
/// has to go back, if there is a rest.
pub async fn complete(
    connection: &mut MySqlConnection,
    known: &Payment,
    received: &ReceivedPayment,
) -> sqlx::Result<Option<RefundReason>> {
    let (refunded, reason) = if known.currency != received.currency {
        // Amounts in two currencies cannot be compared.
        (0, Some(RefundReason::WrongCurrency))
    } else if known.refunded < received.amount {
        (known.refunded.cents(), Some(RefundReason::WrongAmount))
    } else {
        (known.refunded.cents(), None)
    };
    let status = reason.map_or(PaymentStatus::Refunded, |_| PaymentStatus::RefundWanted);
    sqlx::query(
        "UPDATE payments SET amount_cents = ?, currency = ?, refunded_cents = ?, status = ?, \
         reason = ?, next_try_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6) WHERE id = ?",
    )
    .binds((
        received.amount.cents(),
        received.currency.as_str(),
        refunded,
        status.as_str(),
        reason.map(RefundReason::as_str),
        known.id.as_str(),
    ))
    .run(connection)
    .await?;
    Ok(reason)
}

/// Adds money that went back to a payment, and returns whether all of it did. Then it is `refunded`.
pub async fn add_refund(
    connection: &mut MySqlConnection,
    payment: &Payment,
    amount: Cents,
) -> sqlx::Result<bool> {
    let refunded = payment.refunded.cents().saturating_add(amount.cents()).min(Cents::MAX);
    let is_whole = refunded >= payment.amount.cents();
    let status = if is_whole { PaymentStatus::Refunded } else { payment.status };
    sqlx::query(
        "UPDATE payments SET refunded_cents = ?, status = ?, last_error = NULL, \
         changed_at = UTC_TIMESTAMP(6) WHERE id = ?",
    )
    .binds((refunded, status.as_str(), payment.id.as_str()))
    .run(connection)
    .await?;
    Ok(is_whole)
}

/// Makes the money that has paid an order go back, but for what went back already.
pub async fn want_refunds(connection: &mut MySqlConnection, order: OrderId) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE payments SET status = 'refund_wanted', reason = ?, next_try_at = UTC_TIMESTAMP(6), \
         changed_at = UTC_TIMESTAMP(6) \
         WHERE order_id = ? AND status = 'accepted' AND refunded_cents < amount_cents",
    )
    .binds((RefundReason::Returned.as_str(), order.to_string()))
    .run(connection)
    .await
}

/// Lists the payments, at most `limit`, of whose refunds the provider is to be told now.
pub async fn due_refunds(pool: &Database, limit: u32) -> sqlx::Result<Vec<PaymentId>> {
    sqlx::query_scalar(
        "SELECT id FROM payments WHERE status = 'refund_wanted' \
         AND next_try_at <= UTC_TIMESTAMP(6) ORDER BY next_try_at LIMIT ?",
    )
    .bind(limit)
    .all(pool)
    .await
}

/// Notes that the provider was told of a refund.
pub async fn refund_requested(
    connection: &mut MySqlConnection,
    id: &PaymentId,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE payments SET status = 'refund_requested', last_error = NULL, \
         changed_at = UTC_TIMESTAMP(6) WHERE id = ? AND status = 'refund_wanted'",
    )
    .bind(id.as_str())
    .run(connection)
    .await
}

/// Notes that the provider could not be told of a refund; the next try is after `pause`.
pub async fn refund_failed(
    connection: &mut MySqlConnection,
    id: &PaymentId,
    error: &str,
    pause: Duration,
) -> sqlx::Result<()> {
    let error: String = error.chars().take(ERROR_LENGTH_MAX).collect();
    sqlx::query(
        "UPDATE payments SET failures = failures + 1, last_error = ?, \
         next_try_at = UTC_TIMESTAMP(6) + INTERVAL ? SECOND \
         WHERE id = ? AND status = 'refund_wanted'",
    )
    .binds((error, pause.as_secs(), id.as_str()))
    .run(connection)
    .await
}

/// Counts the payments that have to go back and are not known to have done so, at most `most`.
pub async fn count_open_refunds(pool: &Database, most: u32) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT COUNT(*) FROM (SELECT id FROM payments \
         WHERE status IN ('refund_wanted', 'refund_requested') LIMIT ?) AS open_refunds",
    )
    .bind(most)
    .one(pool)
    .await
}

/// Lists at most `limit` payments: of one status or of all, in the order of their ids, behind `after`.
pub async fn list(
    pool: &Database,
    status: Option<PaymentStatus>,
    after: &str,
    limit: u32,
) -> sqlx::Result<Vec<Payment>> {
    let of_status = if status.is_some() { "AND status = ?" } else { "" };
    let statement =
        format!("SELECT {COLUMNS} FROM payments WHERE id > ? {of_status} ORDER BY id LIMIT ?");
    let mut query = sqlx::query_as(&statement).bind(after);
    if let Some(status) = status {
        query = query.bind(status.as_str());
    }
    query.bind(limit).all(pool).await
}

from_row!(Payment {
    id, order: "order_id", amount: "amount_cents",
    currency, refunded: "refunded_cents", status,
    reason as Option<String> => |text| text.as_deref().and_then(RefundReason::parse),
    failures, last_error, created_at, changed_at,
});
