//! Payments that a provider confirms: the money pays the order, or has to go back.
//!
//! One transaction notes the provider's message, writes the payment, and makes the step of the
//! order. When the step is refused, everything is rolled back, and a second transaction writes the
//! payment as one that has to go back. So there is no money without a row.

use ledger::Database;
use sqlx::MySqlConnection;

use super::transaction::{Stepped, apply};
use super::{ATTEMPTS_MAX, LedgerOrders, OrderRoute, StepError};
use ledger::rows::stock::check_home;
use ledger::rows::{self, Fault, answered, failed_change, moved, orders, payments};
use ledger::waiting_list::WaitingLine;
use shop_domain::order::Step;
use shop_domain::payment::{PaymentStatus, ReceivedPayment, RefundReason};
use shop_domain::{Home, LedgerError, Order, OrderId, Routed, UserId};

/// What became of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// The payment was known already; nothing changed.
    Known,
    /// The money has paid this order.
    Paid(Box<Order>),
    /// The money has to go back.
    RefundWanted(RefundReason),
}

/// One try of the transaction.
enum Tried {
    Known,
    Paid(Box<Stepped>),
    RefundWanted(RefundReason),
    /// The step was refused, and everything is rolled back.
    Refused(RefundReason),
}

impl LedgerOrders {
    /// Takes money that came for an order, whose way is `route`. A repetition answers
    /// [`Confirmed::Known`].
    ///
    /// # Errors
    /// When the ledger does not answer; then the provider has to say it again.
    pub async fn confirm(
        &self,
        received: &ReceivedPayment,
        route: OrderRoute,
    ) -> Result<Confirmed, LedgerError> {
        let _permit = self.permit(received.order, Step::Pay, route.home).await?;
        let mut refusal = None;
        let mut attempt = 0;
        loop {
            let work = try_confirm(&self.pool, (received, route), refusal, &self.line);
            match rows::change(&self.breaker, work).await {
                Ok(Tried::Known) => return Ok(Confirmed::Known),
                Ok(Tried::RefundWanted(reason)) => {
                    tracing::warn!(payment = %received.id, order = %received.order, reason = reason.as_str(), "payment has to go back");
                    return Ok(Confirmed::RefundWanted(reason));
                }
                Ok(Tried::Paid(stepped)) => {
                    self.publish(&stepped).await;
                    return Ok(Confirmed::Paid(Box::new(stepped.order)));
                }
                Ok(Tried::Refused(reason)) => refusal = Some(reason),
                Err(error) => {
                    attempt += 1;
                    // A duplicate is another delivery of this message, which was quicker.
                    let passes = matches!(Fault::of(&error), Fault::Transient | Fault::Duplicate);
                    if !passes || attempt >= ATTEMPTS_MAX {
                        return Err(failed_change(&error));
                    }
                }
            }
        }
    }
}

async fn try_confirm(
    pool: &Database,
    (received, route): (&ReceivedPayment, OrderRoute),
    refusal: Option<RefundReason>,
    line: &WaitingLine,
) -> ledger::Result<Tried> {
    let mut transaction = rows::begin(pool).await?;
    let tried = match write(&mut transaction, (received, route), refusal, line).await {
        Ok(tried @ Tried::Refused(_)) => {
            transaction.rollback().await?;
            return Ok(tried);
        }
        Ok(tried) => tried,
        Err(error) => {
            transaction.roll_back_after(&error).await;
            return Err(error);
        }
    };
    transaction.commit().await?;
    Ok(tried)
}

/// `refusal` is the reason why the step was refused in an earlier try.
async fn write(
    connection: &mut MySqlConnection,
    (received, route): (&ReceivedPayment, OrderRoute),
    refusal: Option<RefundReason>,
    line: &WaitingLine,
) -> ledger::Result<Tried> {
    if !payments::note_message(connection, &received.message).await? {
        return Ok(Tried::Known);
    }
    let known = payments::find_for_update(connection, &received.id).await?;
    if known.as_ref().is_some_and(|known| !known.is_refund_alone()) {
        return Ok(Tried::Known);
    }
    let OrderRoute { home, item } = route;
    let found = find_for_update(connection, received.order).await?;
    if !home.is_only && found.is_some() != item.is_some() {
        // The order has moved since the way to it was found, or was written.
        return Err(moved());
    }
    if let Some(known) = known {
        let reason = payments::complete(connection, &known, received).await?;
        check_found(connection, found.as_ref(), home).await?;
        return Ok(reason.map_or(Tried::Known, Tried::RefundWanted));
    }
    let reason = match &found {
        None => Some(RefundReason::UnknownOrder),
        Some(order) => RefundReason::of(order.status, order.amount, received).or(refusal),
    };
    if let Some(reason) = reason {
        payments::insert(connection, received, (PaymentStatus::RefundWanted, Some(reason))).await?;
        check_found(connection, found.as_ref(), home).await?;
        return Ok(Tried::RefundWanted(reason));
    }
    let owner: Option<UserId> = found.map(|order| order.user_id);
    let owner = owner.ok_or(ledger::Error::RowNotFound)?;
    payments::insert(connection, received, (PaymentStatus::Accepted, None)).await?;
    match apply(connection, (received.order, owner), (Step::Pay, home), line).await {
        Ok(stepped) => Ok(Tried::Paid(Box::new(stepped))),
        Err(StepError::SoldOut) => Ok(Tried::Refused(RefundReason::SoldOut)),
        Err(StepError::LimitReached) => Ok(Tried::Refused(RefundReason::LimitReached)),
        Err(StepError::Unavailable(error)) => Err(error),
        Err(StepError::Moving) => Err(moved()),
        // The row is locked, and its status allows the step.
        Err(_) => Err(ledger::Error::RowNotFound),
    }
}

/// Checks that the order's item, if there is an order, still lives in `home`.
async fn check_found(
    connection: &mut MySqlConnection,
    found: Option<&Order>,
    home: Home,
) -> ledger::Result<()> {
    match found {
        Some(order) => check_home(connection, Routed { item: order.item_id, home }).await,
        None => Ok(()),
    }
}

async fn find_for_update(
    connection: &mut MySqlConnection,
    id: OrderId,
) -> ledger::Result<Option<Order>> {
    let statement = format!("SELECT {} FROM orders WHERE id = ? FOR UPDATE", orders::COLUMNS);
    let row = sqlx::query(&statement).bind(id.to_string()).fetch_optional(connection);
    answered(row).await?.as_ref().map(orders::read).transpose()
}
