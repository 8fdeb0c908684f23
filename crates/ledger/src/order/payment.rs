//! Payments that a provider confirms: the money pays the order, or has to go back.
//!
//! One transaction notes the provider's message, writes the payment, and makes the step of the
//! order. When the step is refused, everything is rolled back, and a second transaction writes the
//! payment as one that has to go back. So there is no money without a row.

use sqlx::MySqlConnection;

use super::step::{self, StepResult};
use super::{OrderSteps, StepError, Turn};
use crate::rows::order::payments;
use crate::waiting_list::WaitingLine;
use crate::work::{RetryPolicy, failed_change};
use shop_domain::LedgerError;
use shop_domain::order::Step;
use shop_domain::payment::{PaymentStatus, ReceivedPayment, RefundReason};

/// What became of a payment.
#[derive(Clone)]
pub enum PaymentResult {
    /// The payment was known already; nothing changed.
    Known,
    /// The money has paid the order.
    Paid(Box<StepResult>),
    /// The money has to go back.
    RefundWanted(RefundReason),
}

impl OrderSteps {
    /// Takes money that came for an order. A repetition is [`PaymentResult::Known`].
    ///
    /// # Errors
    /// When the ledger does not answer; then the provider has to say it again.
    pub async fn confirm(&self, received: &ReceivedPayment) -> Result<PaymentResult, LedgerError> {
        let mut turn = self.turn(received.order, Step::Pay).await?;
        let mut refusal = None;
        loop {
            let now = &turn;
            // A duplicate is another delivery of this message, which was quicker.
            let written = self.ledger.transact(RetryPolicy::ROLLED_BACK, |transaction| {
                Box::pin(write(transaction, received, refusal, now, &self.line))
            });
            // A refused step is rolled back, and the payment is written as one that has to go back.
            match written.await {
                Ok(result) => {
                    if let PaymentResult::RefundWanted(reason) = &result {
                        tracing::warn!(payment = %received.id, order = %received.order, reason = reason.as_str(), "payment has to go back");
                    }
                    return Ok(result);
                }
                Err(StepError::SoldOut) => refusal = Some(RefundReason::SoldOut),
                Err(StepError::LimitReached) => refusal = Some(RefundReason::LimitReached),
                Err(StepError::Locked(item)) => turn = self.turn_after(turn, item).await?,
                Err(StepError::Unavailable(error)) => return Err(failed_change(&error)),
                Err(StepError::Ledger(error)) => return Err(error),
                // The row is locked, and its status allows the step.
                Err(_) => return Err(LedgerError::OutcomeUnknown),
            }
        }
    }
}

/// `refusal` is the reason why the step was refused in an earlier try.
async fn write(
    connection: &mut MySqlConnection,
    received: &ReceivedPayment,
    refusal: Option<RefundReason>,
    turn: &Turn,
    line: &WaitingLine,
) -> Result<PaymentResult, StepError> {
    if !payments::note_message(connection, &received.message).await? {
        return Ok(PaymentResult::Known);
    }
    let known = payments::find_for_update(connection, &received.id).await?;
    if known.as_ref().is_some_and(|known| !known.is_refund_alone()) {
        return Ok(PaymentResult::Known);
    }
    let found = step::lock(connection, received.order, turn).await?;
    if let Some(known) = known {
        let reason = payments::complete(connection, &known, received).await?;
        return Ok(reason.map_or(PaymentResult::Known, PaymentResult::RefundWanted));
    }
    let payable = match found {
        None => Err(RefundReason::UnknownOrder),
        Some(locked) => {
            let reason = RefundReason::of(&locked.order, received).or(refusal);
            reason.map_or(Ok(locked), Err)
        }
    };
    match payable {
        Ok(locked) => {
            payments::insert(connection, received, (PaymentStatus::Accepted, None)).await?;
            let made = step::apply(connection, locked, Step::Pay, turn, line).await?;
            Ok(PaymentResult::Paid(Box::new(made)))
        }
        Err(reason) => {
            // Of no money, nothing can go back.
            let (status, result) = match received.amount.cents() {
                0 => (PaymentStatus::Refunded, PaymentResult::Known),
                _ => (PaymentStatus::RefundWanted, PaymentResult::RefundWanted(reason)),
            };
            payments::insert(connection, received, (status, Some(reason))).await?;
            Ok(result)
        }
    }
}
