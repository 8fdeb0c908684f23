//! The meaning of an error, and of an order that is there already, for a purchase.

use sqlx::MySqlConnection;

use super::Attempt;
use crate::rows::{Fault, orders, stock};
use shop_domain::outcome::Dependency;
use shop_domain::{Order, Outcome, Purchase, Refusal, Unavailable};

/// Sorts an error that came before COMMIT was sent; the transaction is rolled back already. The
/// connection in hand is used again: if each retry waited for a second one, many retries at once
/// would hold all connections and wait for more.
pub(super) async fn after_error(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    error: &sqlx::Error,
) -> Attempt {
    let outcome = match Fault::of(error) {
        // Two unique keys can be taken: the order's id (our own earlier try went through) and
        // the request's key (an earlier request did). Both are found by the key.
        Fault::Duplicate => {
            let (buyer, item) = (purchase.buyer, purchase.item.id);
            match orders::find_by_key(&mut *connection, buyer, item, &purchase.key).await {
                Ok(Some(order)) => replay(purchase, order),
                Ok(None) => return Attempt::Again(Fault::Transient),
                Err(_) => return Attempt::Again(Fault::Connection),
            }
        }
        Fault::CheckViolated if Fault::violates(error, GROUP_LIMIT) => {
            let limit = purchase.counted_group().map_or(0, |group| group.per_buyer_limit);
            Outcome::Refused(Refusal::GroupLimitReached { limit })
        }
        Fault::CheckViolated => {
            let limit = purchase.item.per_buyer_limit;
            Outcome::Refused(Refusal::LimitReached { limit })
        }
        fault @ (Fault::Transient | Fault::Connection) => return Attempt::Again(fault),
        Fault::ReadOnly => Outcome::Unavailable(Unavailable::ReadOnly),
        Fault::Moved => Outcome::Unavailable(Unavailable::Moving),
        Fault::Other => {
            tracing::error!(%error, item = %purchase.item.id, "ledger refused an order");
            Outcome::Unavailable(Unavailable::Faulty(Dependency::Mysql))
        }
    };
    match is_of_here(connection, purchase, &outcome).await {
        Ok(true) => Attempt::Done(Ok(outcome)),
        Ok(false) => Attempt::Done(Ok(Outcome::Unavailable(Unavailable::Moving))),
        Err(_) => Attempt::Again(Fault::Connection),
    }
}

/// Whether rows that objected to a purchase say something of its item: those that a move has left behind do
/// not. An order of this very purchase is one wherever its row is.
async fn is_of_here(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    outcome: &Outcome,
) -> sqlx::Result<bool> {
    let home = purchase.item.home;
    if home.is_only || !matches!(outcome, Outcome::Replayed(_) | Outcome::Refused(_)) {
        return Ok(true);
    }
    let row = stock::read(connection, purchase.item.id).await?;
    Ok(row.is_some_and(|row| row.home_epoch == home.epoch))
}

/// The outcome for a retry with the key of `order`.
#[must_use]
pub fn replay(purchase: &Purchase, order: Order) -> Outcome {
    if order.id == purchase.order_id {
        Outcome::Sold(order)
    } else if order.quantity == purchase.quantity {
        Outcome::Replayed(order)
    } else {
        Outcome::Refused(Refusal::KeyReused { order_id: order.id })
    }
}

/// The constraint that keeps the limits of groups.
const GROUP_LIMIT: &str = "group_limits_within";
