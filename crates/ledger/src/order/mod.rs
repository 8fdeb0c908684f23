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

use tokio::sync::OwnedSemaphorePermit;

use crate::route::RoutedError;
use crate::rows::link::answered;
use crate::rows::{Fault, WorkError, change, failed_read, is_unconfirmed, nothing_was_sent};
use crate::waiting_list::WaitingLine;
use crate::write::ItemConcurrency;
use crate::{Ledger, RetryPolicy};
use shop_domain::order::Step;
use shop_domain::{Home, ItemId, ItemRoute, LedgerError, Order, OrderId, UserId};

pub use expiry::{ExpiryBatch, is_of_one_order};
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
    /// An item of the order allows no longer hold.
    #[error("the hold cannot be extended")]
    NotExtendable,
    /// An item of the order does not take it back, or not any more.
    #[error("the order cannot be given back")]
    NotReturnable,
    /// The ledger did not answer; the step may be tried again.
    #[error("the ledger does not answer: {0}")]
    Unavailable(sqlx::Error),
    /// The ledger is known not to answer, so it was not asked; nothing changed.
    #[error("the ledger is away")]
    Away,
    /// Too many transactions of the order's item are running; nothing changed.
    #[error("too many transactions of the item are running")]
    Contended,
    /// All connections to the ledger are in use; nothing changed.
    #[error("all connections to the ledger are in use")]
    Overloaded,
    /// The ledger takes no writes; nothing changed.
    #[error("the ledger is read-only")]
    ReadOnly,
    /// The order's item is being moved to another ledger; nothing changed.
    #[error("the item is moving")]
    Moving,
}

impl From<sqlx::Error> for StepError {
    fn from(error: sqlx::Error) -> Self {
        match Fault::of(&error) {
            Fault::Moved => Self::Moving,
            _ => Self::Unavailable(error),
        }
    }
}

/// The error of a step whose order was not found, or that waited for its item in vain.
impl From<LedgerError> for StepError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Moving => Self::Moving,
            LedgerError::Contended => Self::Contended,
            LedgerError::Overloaded => Self::Overloaded,
            _ => Self::Away,
        }
    }
}

impl WorkError for StepError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unavailable(error) => Some(error),
            _ => None,
        }
    }
}

impl RoutedError for StepError {
    fn may_have_moved(&self) -> bool {
        matches!(self, Self::Moving)
    }
}

/// The way to an order.
#[derive(Clone, Copy, Debug)]
pub struct OrderRoute {
    /// The route to its item; to the home ledger for an order that does not exist.
    pub home: Home,
    /// Its item; `None` for an order that does not exist, and while there is one ledger.
    pub item: Option<ItemId>,
}

impl OrderRoute {
    /// The order's item with the route to it.
    #[must_use]
    pub fn routed(&self) -> Option<ItemRoute> {
        self.item.map(|item| ItemRoute { item, home: self.home })
    }
}

/// Writes steps of the orders of one ledger. Clones share everything.
#[derive(Clone)]
pub struct OrderSteps {
    ledger: Ledger,
    line: WaitingLine,
    concurrency: ItemConcurrency,
}

impl OrderSteps {
    /// The steps in `ledger`. Returned units go to the buyers in `line`; `concurrency` is the limit of each
    /// item.
    #[must_use]
    pub fn new(ledger: Ledger, line: WaitingLine, concurrency: ItemConcurrency) -> Self {
        Self { ledger, line, concurrency }
    }

    /// The ledger of these orders.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The line in front of units that come back.
    #[must_use]
    pub fn line(&self) -> &WaitingLine {
        &self.line
    }

    /// Makes one step of an owner's order, whose item is at the end of the route `home`.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed, unless the ledger did not answer.
    pub async fn step(
        &self,
        (id, owner): (OrderId, UserId),
        step: Step,
        home: Home,
    ) -> Result<StepResult, StepError> {
        let _permit = self.permit(id, step, home).await?;
        // The change of the last COMMIT that was sent.
        let sent: Mutex<Option<StepResult>> = Mutex::default();
        let work = self.ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
            let (sent, line) = (&sent, &self.line);
            Box::pin(async move {
                let made = step::apply(transaction, (id, owner), (step, home), line).await?;
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
                Ok(made.or_before(sent.into_inner().unwrap_or_else(PoisonError::into_inner)))
            }
            Err(StepError::Unavailable(error)) if Fault::of(&error) == Fault::AllInUse => {
                Err(StepError::Overloaded)
            }
            Err(StepError::Unavailable(error)) if nothing_was_sent(&error) => Err(StepError::Away),
            Err(StepError::Unavailable(error))
                if Fault::of(&error) == Fault::ReadOnly && !is_unconfirmed(&error) =>
            {
                Err(StepError::ReadOnly)
            }
            Err(StepError::Unavailable(error)) => {
                tracing::warn!(%error, order = %id, "order step failed");
                Err(StepError::Unavailable(error))
            }
            refused => refused,
        }
    }

    /// Waits for a permit of each item of the order, unless the step touches no row that the item's orders share.
    /// The order is read before its row is locked: what waits for its item holds no connection.
    ///
    /// # Errors
    /// When the ledger does not answer, or the item's permits are taken for too long; nothing changed.
    async fn permit(
        &self,
        id: OrderId,
        step: Step,
        home: Home,
    ) -> Result<Vec<OwnedSemaphorePermit>, LedgerError> {
        // Like the step that follows, it is never the breaker's probe.
        let Ledger { pool, breaker } = &self.ledger;
        let read = RetryPolicy::READ.run(|| change(breaker, answered(step::find(pool, id))));
        let found = read.await.map_err(|error: sqlx::Error| failed_read(&error))?;
        let Some(order) = found else { return Ok(Vec::new()) };
        // With several ledgers every step compares the epoch in the stock row.
        if home.is_only && !order.status.step(step).moves_stock() {
            return Ok(Vec::new());
        }
        let mut permits = Vec::new();
        // In the order of the items, so that no two orders wait for each other.
        for line in order.lines() {
            let permit = self.concurrency.acquire_for_step(line.item_id).await;
            permits.push(permit.ok_or(LedgerError::Contended)?);
        }
        Ok(permits)
    }
}
