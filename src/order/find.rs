//! Finding the orders of one ledger: those that are written, and those that are queued.

use super::{LedgerOrders, OrderPage};
use gates::redis_store::CounterError;
use gates::redis_store::queue::QueuedOrders;
use ledger::rows::{RowAt, orders};
use shop_domain::{LedgerError, Order, OrderId, UserId};

/// The reason why an order could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The ledger did not answer.
    #[error("mysql: {0}")]
    Ledger(#[from] LedgerError),
    /// The ledger has no such order, and the queues could not be read.
    #[error("queue: {0}")]
    Queue(CounterError),
}

/// The part of a buyer's list that one of several ledgers has.
pub(super) struct LedgerPage {
    /// Written orders.
    pub written: Vec<RowAt<Order>>,
    /// Queued orders; some of them may be written by now.
    pub queued: Vec<Order>,
    /// Whether a server of Redis did not answer, so that queued orders are missing.
    pub is_incomplete: bool,
}

impl LedgerOrders {
    /// Finds an owner's order, in the ledger or in a queue.
    pub async fn find(&self, id: OrderId, owner: UserId) -> Result<Option<Order>, FindError> {
        // Without the ledger's answer nobody knows whether a queued order is written by now.
        if let Some(written) = self.find_in_ledger(id, owner).await? {
            return Ok(Some(written));
        }
        if let Some(queued) = self.find_queued(id, owner).await? {
            return Ok(Some(queued));
        }
        // The order may have moved from the queue to the ledger in between.
        Ok(self.find_in_ledger(id, owner).await?)
    }

    /// Finds an owner's order in the queues alone.
    pub(super) async fn find_queued(
        &self,
        id: OrderId,
        owner: UserId,
    ) -> Result<Option<Order>, FindError> {
        self.queue.find(id, owner).await.map_err(FindError::Queue)
    }

    /// Finds an order in the ledger alone, of `owner` or of any, with the epoch of its item.
    pub(super) async fn find_placed(
        &self,
        id: OrderId,
        owner: Option<UserId>,
    ) -> Result<Option<RowAt<Order>>, LedgerError> {
        let ledger = self.ledger();
        ledger.read(orders::find_placed(&ledger.pool, id, owner)).await
    }

    async fn find_in_ledger(
        &self,
        id: OrderId,
        owner: UserId,
    ) -> Result<Option<Order>, LedgerError> {
        let ledger = self.ledger();
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
        let (queued, is_incomplete) = self.list_queued(owner, before).await;
        let ledger = self.ledger();
        let listed = ledger.read(orders::list(&ledger.pool, owner, before, limit));
        let mut orders = listed.await?;
        for order in queued {
            if orders.iter().all(|listed| listed.id != order.id) {
                orders.push(order);
            }
        }
        orders.sort_unstable_by_key(|order| std::cmp::Reverse(order.id));
        orders.truncate(limit as usize);
        Ok(OrderPage { orders, is_incomplete })
    }

    /// Lists an owner's orders like [`LedgerOrders::list`], as a part of a list of several ledgers.
    pub(super) async fn list_part(
        &self,
        owner: UserId,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<LedgerPage, LedgerError> {
        let (queued, is_incomplete) = self.list_queued(owner, before).await;
        let ledger = self.ledger();
        let written = ledger.read(orders::list_placed(&ledger.pool, owner, before, limit)).await?;
        Ok(LedgerPage { written, queued, is_incomplete })
    }

    /// An owner's queued orders, and whether some may be missing. They are read before the ledger: an
    /// order that moves to the ledger meanwhile is read in both, never in neither.
    async fn list_queued(&self, owner: UserId, before: Option<OrderId>) -> (Vec<Order>, bool) {
        let QueuedOrders { mut orders, failed } = self.queue.list(owner).await;
        if let Some(error) = &failed {
            tracing::warn!(%error, "queued orders not listed");
        }
        orders.retain(|order| before.is_none_or(|before| order.id < before));
        (orders, failed.is_some())
    }
}
