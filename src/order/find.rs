//! Finding orders: those that are written, and those that are queued.

use super::Orders;
use gates::redis_store::CounterError;
use gates::redis_store::queue::QueuedOrders;
use ledger::order::StepError;
use ledger::rows::orders;
use shop_domain::{LedgerError, Order, OrderId, UserId};

/// The reason why an order could not be looked up, or a step was not made.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The ledger did not answer.
    #[error("mysql: {0}")]
    Ledger(#[from] LedgerError),
    /// The ledger has no such order, and the queues could not be read.
    #[error("queue: {0}")]
    Queue(CounterError),
}

/// A page of a buyer's orders.
#[derive(Clone, Debug)]
pub struct OrderPage {
    /// Newest first.
    pub orders: Vec<Order>,
    /// Whether a server with queued orders did not answer, so that its orders are missing.
    pub is_incomplete: bool,
}

impl Orders {
    /// Finds an owner's order, in the ledger or in a queue.
    ///
    /// # Errors
    /// When a server does not answer that may have it.
    pub async fn find(&self, id: OrderId, owner: UserId) -> Result<Option<Order>, OrderError> {
        // Without the ledger's answer nobody knows whether a queued order is written by now.
        if let Some(written) = self.find_in_ledger(id, owner).await? {
            return Ok(Some(written));
        }
        if let Some(queued) = self.queue.find(id, owner).await.map_err(OrderError::Queue)? {
            return Ok(Some(queued));
        }
        // The order may have moved from the queue to the ledger in between.
        Ok(self.find_in_ledger(id, owner).await?)
    }

    async fn find_in_ledger(
        &self,
        id: OrderId,
        owner: UserId,
    ) -> Result<Option<Order>, LedgerError> {
        let ledger = &self.steps.ledger;
        ledger.read(orders::find(&ledger.pool, id, owner)).await
    }

    /// Lists an owner's orders, newest first, with the queued ones; without Redis only those of the
    /// ledger, and the list says that it is incomplete.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn list(
        &self,
        owner: UserId,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<OrderPage, LedgerError> {
        // The queues first: an order that moves to the ledger meanwhile is read in both, never in neither.
        let QueuedOrders { orders: mut queued, failed } = self.queue.list(owner).await;
        if let Some(error) = &failed {
            tracing::warn!(%error, "queued orders not listed");
        }
        queued.retain(|order| before.is_none_or(|before| order.id < before));
        let ledger = &self.steps.ledger;
        let listed = ledger.read(orders::list(&ledger.pool, owner, before, limit));
        let mut orders = listed.await?;
        for order in queued {
            if orders.iter().all(|listed| listed.id != order.id) {
                orders.push(order);
            }
        }
        orders.sort_unstable_by_key(|order| std::cmp::Reverse(order.id));
        orders.truncate(limit as usize);
        Ok(OrderPage { orders, is_incomplete: failed.is_some() })
    }
}
