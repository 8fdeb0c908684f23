//! What follows an error: its meaning for a purchase, and the question what became of a write whose answer was lost.

use sqlx::MySqlConnection;

use super::{Answer, Arbiter, Attempt, LOST_COMMIT_READS_MAX, UNANSWERED, pause, transaction};
use crate::rows::order::orders;
use mysql_connection::Fault;
use mysql_connection::statement::{Binds, Read};
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
            let buyer = purchase.buyer;
            let item = purchase.item.id;
            match orders::find_by_key(connection, buyer, item, &purchase.key).await {
                Ok(Some(order)) => replay(purchase, order),
                Ok(None) => return Attempt::Again(Fault::Transient),
                Err(_) => return Attempt::Again(Fault::Connection),
            }
        }
        Fault::CheckViolated if Fault::violates(error, GROUP_LIMIT) => {
            let limit = purchase.counted_group().map_or(0, |group| group.per_buyer_limit);
            Outcome::Refused(Refusal::GroupLimitReached { limit })
        }
        Fault::CheckViolated => match is_over_unpaid(connection, purchase).await {
            Ok(true) => {
                let limit = purchase.item.unpaid_max;
                Outcome::Refused(Refusal::UnpaidLimitReached { limit })
            }
            Ok(false) => {
                let limit = purchase.item.per_buyer_limit;
                Outcome::Refused(Refusal::LimitReached { limit })
            }
            Err(_) => return Attempt::Again(Fault::Connection),
        },
        fault @ (Fault::Transient | Fault::Connection) => return Attempt::Again(fault),
        fault => {
            if matches!(fault, Fault::Full | Fault::DoesNotFit | Fault::Other) {
                tracing::error!(%error, item = %purchase.item.id, "ledger refused an order");
            }
            Outcome::Unavailable(unavailable(fault))
        }
    };
    Attempt::Done(Ok(outcome))
}

/// Why the ledger cannot serve a purchase, after an error with which nothing was written.
pub(super) fn unavailable(fault: Fault) -> Unavailable {
    match fault {
        Fault::ReadOnly | Fault::Full => Unavailable::ReadOnly,
        Fault::Connection => Unavailable::Dependency(Dependency::Mysql),
        Fault::AllInUse => Unavailable::Overloaded,
        Fault::Transient => Unavailable::Contended,
        _ => Unavailable::Faulty(Dependency::Mysql),
    }
}

/// The outcome for a gate when the ledger cannot be read or refuses writes, before anything was written.
pub fn no_ledger(error: &sqlx::Error) -> Outcome {
    tracing::warn!(%error, "ledger not read");
    Outcome::Unavailable(unavailable(Fault::of(error)))
}

/// The outcome for a retry with the key of `order`.
pub fn replay(purchase: &Purchase, order: Order) -> Outcome {
    replay_lines(std::slice::from_ref(purchase), vec![order])
}

/// The outcome for a retry with the lines of `purchases`, whose key has made the orders or lines in `found`.
///
/// # Panics
/// When nothing was found.
pub fn replay_lines(purchases: &[Purchase], found: Vec<Order>) -> Outcome {
    let order = Order::of_lines(found).expect("an order was found");
    let order_id = order.whole_id();
    let is_same = order.lines().count() == purchases.len()
        && order.lines().all(|line| {
            line.whole_id() == order_id
                && line.line_count == purchases[0].line_count
                && purchases
                    .iter()
                    .any(|one| (one.item.id, one.quantity) == (line.item_id, line.quantity))
        });
    if order.id == purchases[0].order_id {
        Outcome::Sold(order)
    } else if is_same {
        Outcome::Replayed(order)
    } else {
        Outcome::Refused(Refusal::KeyReused { order_id })
    }
}

/// The constraint that keeps the limits of groups.
const GROUP_LIMIT: &str = "group_limits_within";

/// Whether the buyer's holds of the item have expired too often: both limits are refused by one constraint.
async fn is_over_unpaid(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<bool> {
    if purchase.item.unpaid_max == 0 {
        return Ok(false);
    }
    let expired: Option<i64> = sqlx::query_scalar(
        "SELECT CAST(expired AS SIGNED) FROM buyer_limits WHERE item_id = ? AND user_id = ?",
    )
    .binds((purchase.item.id.get(), purchase.buyer.get()))
    .first(connection)
    .await?;
    Ok(expired.unwrap_or_default() >= i64::from(purchase.item.unpaid_max))
}

impl Arbiter {
    /// Finds out what became of a COMMIT whose answer was lost: `Some(Some(order))` it happened,
    /// `Some(None)` it did not and never will, `None` the ledger cannot be asked.
    ///
    /// The read locks, so it waits for a transaction that still holds the row: a COMMIT that is
    /// only slow is not mistaken for one that failed.
    pub(super) async fn recover_lost_commit(&self, purchase: &Purchase) -> Option<Option<Order>> {
        self.metrics.arbiter_commits_lost.inc();
        let _span = purchase.trace.span("recovery of a lost COMMIT");
        for attempt in 1..=LOST_COMMIT_READS_MAX {
            match transaction::find_locking(&self.pool, purchase).await {
                Ok(found) => return Some(found),
                Err(error) => {
                    tracing::warn!(%error, order = %purchase.order_id, "result of a lost COMMIT not known yet");
                }
            }
            pause(attempt + 2).await;
        }
        None
    }

    /// The answer of a try after a call of the same order was lost. The order's key lets only one of
    /// them count, so an order that is there is the answer. Any other answer says nothing about the
    /// call, which may still run.
    pub(super) async fn doubt(&self, purchase: &Purchase, answer: Answer) -> Answer {
        if matches!(answer, Ok(Outcome::Sold(_) | Outcome::Replayed(_))) {
            return answer;
        }
        let found = Box::pin(self.recover_lost_commit(purchase)).await.flatten();
        Ok(found.map_or(UNANSWERED, |order| replay(purchase, order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_a_reason() {
        for (fault, why) in [
            (Fault::ReadOnly, Unavailable::ReadOnly),
            (Fault::Full, Unavailable::ReadOnly),
            (Fault::AllInUse, Unavailable::Overloaded),
            (Fault::Other, Unavailable::Faulty(Dependency::Mysql)),
        ] {
            assert_eq!(unavailable(fault), why, "{fault:?}");
        }
    }
}
