//! The transactions that change an order after it is placed: payment, extension, cancellation, expiry, return and
//! refund.
//!
//! Each step is one transaction that locks the order first, asks the table of transitions in
//! `shop_domain::order`, and moves stock at most once: the movement's key is the order and the reason.
//! The order of statements is that of a purchase (order, limit, movement, stock last), so the two never
//! wait for each other in a circle. Every step is idempotent, so after a lost answer to a COMMIT the step is
//! tried again.

mod expiry;
mod payment;
pub mod refund;
mod step;
mod terms;

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::waiting_list::WaitingLine;
use crate::work::item_concurrency::step_deadline;
use crate::work::item_permit::ItemPermits;
use crate::work::{Ledger, RetryPolicy, change, failed_change, failed_read};
use mysql_connection::{WorkError, answered};
use shop_domain::order::Step;
use shop_domain::{ItemId, LedgerError, Order, OrderId, UserId};

pub use expiry::{ExpiryBatch, Overdue, OverdueOrder, is_of_one_order};
pub use payment::PaymentResult;
pub use step::{ReturnedUnits, StepResult};

/// The reason why a step was not made.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// There is no such order, or it belongs to another user.
    #[error("no such order")]
    NotFound,
    /// The order's state does not allow it.
    #[error("the order is {}", .0.status.as_str())]
    Conflict(Box<Order>),
    /// A late payment found no stock left.
    #[error("the hold ran out and the stock is sold")]
    SoldOut,
    /// A late payment found that the buyer has reached the limit with other orders.
    #[error("the hold ran out and the limit is reached")]
    LimitReached,
    /// The hold was over before it was extended.
    #[error("the hold is over")]
    HoldOver,
    /// An item of the order does not allow a longer hold.
    #[error("the hold cannot be extended")]
    NotExtendable,
    /// An item of the order does not take it back, or not any more.
    #[error("the order cannot be given back")]
    NotReturnable,
    /// The database's error; the step may be tried again.
    #[error("the ledger does not answer: {0}")]
    Unavailable(#[from] sqlx::Error),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The stock row of this item, or the limit of the buyer, is locked by another transaction; nothing changed.
    #[error("the stock row of item {0} is locked")]
    Locked(ItemId),
}

impl WorkError for StepError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unavailable(error) => Some(error),
            _ => None,
        }
    }

    fn map_database(self, replace: impl FnOnce(sqlx::Error) -> sqlx::Error) -> Self {
        match self {
            Self::Unavailable(error) => Self::Unavailable(replace(error)),
            other => other,
        }
    }
}

/// Writes steps of orders. Clones share everything.
#[derive(Clone)]
pub struct OrderSteps {
    pub ledger: Ledger,
    /// Who gets units that come back.
    pub line: WaitingLine,
}

impl OrderSteps {
    /// Makes one step of an owner's order.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed, unless the ledger did not answer.
    pub async fn step(
        &self,
        id: OrderId,
        owner: UserId,
        step: Step,
    ) -> Result<StepResult, StepError> {
        let mut turn = self.turn(id, step).await?;
        loop {
            match self.step_in(id, owner, step, &turn).await {
                Err(StepError::Locked(item)) => turn = self.turn_after(turn, item).await?,
                ended => return ended,
            }
        }
    }

    async fn step_in(
        &self,
        id: OrderId,
        owner: UserId,
        step: Step,
        turn: &Turn,
    ) -> Result<StepResult, StepError> {
        // The change of the last COMMIT that was sent.
        let sent: Mutex<Option<StepResult>> = Mutex::default();
        let work = self.ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
            let sent = &sent;
            let line = &self.line;
            Box::pin(async move {
                let locked = step::lock(transaction, id, turn).await?;
                let locked = locked.filter(|locked| locked.order.user_id == owner);
                let locked = locked.ok_or(StepError::NotFound)?;
                let made = step::apply(transaction, locked, step, turn, line).await?;
                failpoint!("step-applied");
                if made.changed {
                    *sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.clone());
                }
                Ok(made)
            })
        });
        match work.await {
            Ok(made) => {
                failpoint!("step-committed");
                let sent = sent.into_inner().unwrap_or_else(PoisonError::into_inner);
                // An attempt whose COMMIT was not answered has made the change if this one finds the order as that one
                // left it.
                Ok(sent.filter(|sent| sent.order == made.order).unwrap_or(made))
            }
            Err(StepError::Unavailable(error)) => {
                let known = failed_change(&error);
                if known == LedgerError::OutcomeUnknown {
                    tracing::warn!(order = %id, "order step not confirmed");
                }
                Err(known.into())
            }
            refused => refused,
        }
    }

    /// Waits for the permits of the order's items, unless the step touches no row that the items' orders share.
    /// The order is read before its row is locked: what waits for its items holds no connection.
    ///
    /// # Errors
    /// When the ledger does not answer, or the items' permits are taken for too long; nothing changed.
    async fn turn(&self, id: OrderId, step: Step) -> Result<Turn, LedgerError> {
        // Like the step that follows, it is never the breaker's probe.
        let Ledger { pool, breaker, items } = &self.ledger;
        let read = RetryPolicy::READ.run(|| change(breaker, answered(step::find(pool, id))));
        let found = read.await.map_err(|error: sqlx::Error| failed_read(&error))?;
        let deadline = Some(step_deadline());
        let of_order: Vec<ItemId> =
            found.iter().flat_map(Order::lines).map(|line| line.item_id).collect();
        let permits = if found.is_some_and(|order| order.status.step(step).moves_stock()) {
            items.acquire_all(&of_order, pool, deadline).await.ok_or(LedgerError::Contended)?
        } else {
            ItemPermits::default()
        };
        Ok(Turn { items: of_order, permits, deadline })
    }

    /// Waits again, after the row of an item was found locked.
    ///
    /// # Errors
    /// That the row was not free in time; nothing changed.
    async fn turn_after(&self, turn: Turn, locked: ItemId) -> Result<Turn, LedgerError> {
        let Turn { items, permits, deadline } = turn;
        let within = (&self.ledger.pool, deadline);
        let permits = self.ledger.items.acquire_after(permits, &items, locked, within).await;
        let permits = permits.ok_or(LedgerError::Contended)?;
        Ok(Turn { items, permits, deadline })
    }
}

/// What a step has of its order's items before it begins.
struct Turn {
    /// That of the first line first; none when the order was not found.
    items: Vec<ItemId>,
    /// Of all items, or of none where the step needs none.
    permits: ItemPermits,
    deadline: Option<Instant>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::mysql::MySqlPoolOptions;

    use super::*;
    use crate::work::item_concurrency::ItemConcurrency;
    use mysql_connection::Database;

    /// A row that is locked each time a step comes would have it try for ever.
    #[tokio::test]
    async fn a_step_whose_time_is_over_does_not_wait_for_a_locked_row_again() {
        let nowhere = MySqlPoolOptions::new()
            .acquire_timeout(Duration::from_millis(10))
            .connect_lazy("mysql://nobody@127.0.0.1:1/none");
        let pool = Database::from(nowhere.expect("a URL"));
        let item = ItemId::new(1).expect("positive");
        let items = ItemConcurrency::new(4);
        let again = async |deadline: Instant| {
            let within = (&pool, Some(deadline));
            items.acquire_after(ItemPermits::default(), &[item], item, within).await
        };
        let is_late = again(Instant::now()).await.is_none();
        assert!(is_late, "it is answered");
        let is_in_time = again(step_deadline()).await.is_some();
        assert!(is_in_time, "it tries again");
    }
}
