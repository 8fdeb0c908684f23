//! The transactions that note money which goes back.

use std::time::Duration;

use sqlx::MySqlConnection;

use crate::rows::account::actions::{self, Actor};
use crate::rows::order::payments;
use crate::work::{Ledger, RetryPolicy};
use mysql_connection::{Database, transact};
use payments::Payment;
use shop_domain::payment::{PaymentId, PaymentStatus, ReceivedPayment};
use shop_domain::{Cents, LedgerError};

/// What became of the provider's message of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundResult {
    /// All of the money went back.
    Refunded,
    /// A part of the money went back.
    PartlyRefunded,
    /// Nothing changed: the message was known, or says nothing that matters here.
    Unchanged,
}

/// What became of an operator's note that money went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// The refund is noted, now or before.
    Noted,
    /// The money has paid an order, so it does not have to go back.
    HasPaid,
    /// There is no such payment.
    NotFound,
}

/// Notes what the provider said to the request of a refund: it is accepted, or asked for again after a pause.
///
/// # Errors
/// The database's.
pub async fn note_request(
    pool: &Database,
    id: &PaymentId,
    answer: Result<(), (&str, Duration)>,
) -> sqlx::Result<()> {
    transact(pool, |transaction| {
        Box::pin(async move {
            match answer {
                Ok(()) => payments::refund_requested(transaction, id).await,
                Err((error, pause)) => payments::refund_failed(transaction, id, error, pause).await,
            }
        })
    })
    .await
}

/// Notes that money went back, as the provider says.
///
/// # Errors
/// When it was not noted, or may have been.
pub async fn note_message(
    ledger: &Ledger,
    received: &ReceivedPayment,
) -> Result<RefundResult, LedgerError> {
    // A duplicate is the payment itself, whose message came at the same moment.
    let noted = ledger.change(RetryPolicy::ROLLED_BACK, |transaction| {
        Box::pin(async move {
            // A refund of a part may come several times, each with a message or an id of its own.
            if !payments::note_message(transaction, &received.message).await?
                || !payments::note_refund(transaction, received).await?
            {
                // Committed all the same: only so it is sure that the present writer says it.
                return Ok(RefundResult::Unchanged);
            }
            match payments::find_for_update(transaction, &received.id).await? {
                Some(payment) => add_refund(transaction, &payment, received).await,
                // The refund is told before the payment: the payment must not pay.
                None => {
                    payments::insert(transaction, received, (PaymentStatus::Refunded, None))
                        .await?;
                    Ok(RefundResult::Refunded)
                }
            }
        })
    });
    noted.await
}

/// Notes that an operator has paid back by hand all of the money that has to go back.
///
/// # Errors
/// When it was not noted, or may have been.
pub async fn note_by_hand(
    ledger: &Ledger,
    id: &PaymentId,
    actor: &Actor,
) -> Result<ByHand, LedgerError> {
    let noted = ledger.change(RetryPolicy::ONCE, |transaction| {
        Box::pin(async move {
            let found = payments::find_for_update(transaction, id).await?;
            Ok(match found.map(|payment| (payment.status, payment)) {
                Some((PaymentStatus::RefundWanted | PaymentStatus::RefundRequested, due)) => {
                    let left = due.left_cents();
                    let rest = Cents::new(left).unwrap_or(due.amount);
                    payments::add_refund(transaction, &due, rest).await?;
                    let detail =
                        serde_json::json!({ "payment": id.as_str(), "amount_cents": left });
                    actions::record(transaction, actor, "payment_refunded", None, &detail).await?;
                    ByHand::Noted
                }
                Some((PaymentStatus::Accepted, _)) => ByHand::HasPaid,
                Some((PaymentStatus::Refunded, _)) => ByHand::Noted,
                None => ByHand::NotFound,
            })
        })
    });
    noted.await
}

/// Adds a refund that the provider tells to a payment that is known.
async fn add_refund(
    transaction: &mut MySqlConnection,
    payment: &Payment,
    refund: &ReceivedPayment,
) -> sqlx::Result<RefundResult> {
    if payment.status == PaymentStatus::Refunded && !payment.is_refund_alone() {
        // A repetition does not come here, so it is money that went back by hand, too, or twice.
        tracing::warn!(payment = %payment.id, refund_cents = refund.amount.cents(), "money of a payment went back again, after all of it had gone back");
        return Ok(RefundResult::Unchanged);
    }
    if payment.currency != refund.currency {
        tracing::warn!(payment = %payment.id, "a refund in another currency than its payment is not counted");
        return Ok(RefundResult::Unchanged);
    }
    tracing::info!(payment = %payment.id, status = payment.status.as_str(), order = %payment.order, left_cents = payment.left_cents(), refund_cents = refund.amount.cents(), "money of a payment went back; an order that it has paid stays paid");
    if refund.amount.cents() > payment.left_cents() && !payment.is_refund_alone() {
        tracing::warn!(payment = %payment.id, "more money went back than was left of the payment");
    }
    if payments::add_refund(transaction, payment, refund.amount).await? {
        Ok(RefundResult::Refunded)
    } else {
        Ok(RefundResult::PartlyRefunded)
    }
}
