//! The transactions that expire orders whose hold has run out.
//!
//! The statement compares `expires_at` with the database's clock, so that an instance with a wrong
//! clock ends no hold.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::step::{ReturnedUnits, give_limits_back, give_stock_back};
use super::{OrderSteps, StepError};
use crate::rows::item::items::{self, datetime};
use crate::rows::order::orders::{self, LinesOf, WHOLE};
use crate::waiting_list::WaitingLine;
use crate::work::item_permit::{ItemPermit, ItemPermits};
use crate::work::limit_lock;
use crate::work::stock_lock::wait_until_free;
use mysql_connection::limits::{LONG_READ_MAX, TRANSACTION_MAX};
use mysql_connection::statement::{Binds, in_list};
use mysql_connection::{Database, Fault, answered, begin_on, transact, within};
use shop_domain::order::MovementReason;
use shop_domain::{ItemId, Order, OrderId, OrderStatus};

/// The orders whose hold has run out.
const OVERDUE: &str = "orders.status = 'pending' AND orders.expires_at <= UTC_TIMESTAMP(6)";

/// A batch of orders that have expired.
pub struct ExpiryBatch {
    /// The orders after the change.
    pub orders: Vec<Order>,
    /// The orders that were left out, since other transactions have a limit of their buyers.
    pub left_out: usize,
    /// What became of the units of each item.
    pub returned: Vec<ReturnedUnits>,
    /// The time of the expiry, by the database's clock; `None` without orders.
    pub at: Option<OffsetDateTime>,
}

/// An overdue order, by its place among those of its item.
#[derive(Clone, Copy, Debug)]
pub struct OverdueOrder {
    pub id: OrderId,
    pub expires_at: OffsetDateTime,
}

from_row!(OverdueOrder { id, expires_at });

/// Which overdue orders of an item a transaction expires.
#[derive(Clone, Copy)]
pub enum Overdue {
    /// At most this number, oldest first.
    First(u32),
    One(OrderId),
}

impl OrderSteps {
    /// Expires overdue orders of one item in one transaction. May run in every instance at once: rows that another one
    /// works on are skipped. Waits for the item, and for nothing while it holds the item; for limits of buyers only in
    /// a batch whose orders have no lines of other items. Other batches leave out the orders whose limits others have.
    ///
    /// # Errors
    /// No order has expired, unless the COMMIT was not answered. [`StepError::Locked`] when an order has a line of
    /// another item whose stock row others have: nothing waits for that item.
    pub async fn expire(&self, item: ItemId, which: Overdue) -> Result<ExpiryBatch, StepError> {
        match self.expire_together(item, which, ItemPermits::of_job(item, false)).await {
            // An order with lines of other items found the row locked, and did not wait for it.
            Err(StepError::Locked(locked)) if locked == item => {}
            ended => return ended,
        }
        wait_until_free(&self.ledger.pool, &ItemPermit::of_job(item)).await?;
        self.expire_together(item, which, ItemPermits::of_job(item, true)).await
    }

    async fn expire_together(
        &self,
        item: ItemId,
        which: Overdue,
        mut permits: ItemPermits,
    ) -> Result<ExpiryBatch, StepError> {
        let ledger = &self.ledger;
        let mut sent = None;
        let batch = &mut sent;
        let permits = &mut permits;
        let work = transact(&ledger.pool, |transaction| {
            Box::pin(async move {
                let line = &self.line;
                *batch = Some(expire_batch(transaction, item, which, permits, line).await?);
                failpoint!("expiry-applied");
                Ok(())
            })
        });
        let ended: Result<(), StepError> = work.await;
        match (ended, sent) {
            (Ok(()), Some(batch)) => {
                failpoint!("expiry-committed");
                Ok(batch)
            }
            (Err(error), Some(batch)) => {
                recover_lost_commit(&ledger.pool, batch).await.ok_or(error)
            }
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(sqlx::Error::RowNotFound.into()),
        }
    }

    /// Lists at most `limit` overdue orders of an item, oldest first, behind `last` if it is given.
    ///
    /// # Errors
    /// The database's.
    pub async fn overdue_orders(
        &self,
        item: ItemId,
        last: Option<OverdueOrder>,
        limit: u32,
    ) -> sqlx::Result<Vec<OverdueOrder>> {
        let behind = match last {
            Some(_) => "AND (orders.expires_at > ? OR (orders.expires_at = ? AND orders.id > ?))",
            None => "",
        };
        let statement = format!(
            "SELECT {} FROM orders WHERE item_id = ? AND {OVERDUE} AND {WHOLE} {behind} \
             ORDER BY expires_at, id LIMIT ?",
            OverdueOrder::COLUMNS
        );
        let mut listed = sqlx::query_as(&statement).bind(item.get());
        if let Some(OverdueOrder { id, expires_at }) = last {
            let at = datetime(expires_at);
            listed = listed.bind(at).bind(at).bind(id.to_string());
        }
        within(TRANSACTION_MAX, listed.bind(limit).fetch_all(&self.ledger.pool)).await
    }

    /// Lists the items with overdue orders.
    ///
    /// Of each item only the order whose hold ends first is read, so that the time does not grow with the
    /// orders: `EXISTS` had MariaDB read the index of all orders, twice a second. MySQL sees that the index has
    /// them in this order only when all of its columns are named. An item is listed, too, when only further
    /// lines of an order are overdue.
    ///
    /// # Errors
    /// The database's.
    pub async fn overdue_items(&self) -> sqlx::Result<Vec<ItemId>> {
        let listed = sqlx::query_scalar(
            "SELECT id FROM items WHERE (SELECT expires_at FROM orders \
             WHERE orders.item_id = items.id AND orders.status = 'pending' \
             ORDER BY orders.item_id, orders.status, orders.expires_at LIMIT 1) <= UTC_TIMESTAMP(6)",
        );
        within(LONG_READ_MAX, listed.fetch_all(&self.ledger.pool)).await
    }
}

/// Whether an error belongs to one order: to a row that the database refuses, or to another item that the order waits
/// for. The other orders can still expire.
pub fn is_of_one_order(error: &StepError) -> bool {
    match error {
        StepError::Locked(_) => true,
        StepError::Unavailable(error) => {
            matches!(
                Fault::of(error),
                Fault::CheckViolated | Fault::Duplicate | Fault::DoesNotFit | Fault::Other
            )
        }
        _ => false,
    }
}

/// The orders of a batch whose COMMIT was not answered, if they are expired in the ledger. The
/// batch is not repeated, so their events are published from here. The read waits for a COMMIT that
/// is slow.
async fn recover_lost_commit(pool: &Database, batch: ExpiryBatch) -> Option<ExpiryBatch> {
    let first = batch.orders.first()?;
    let read = async {
        let mut connection = pool.after_lost_commit().await?;
        let mut transaction = begin_on(&mut connection).await?;
        let lock = "SELECT status FROM orders WHERE id = ? AND item_id = ? FOR UPDATE";
        let status = sqlx::query_scalar(lock)
            .binds((first.id.to_string(), first.item_id.get()))
            .fetch_optional(&mut *transaction)
            .await?;
        // Nothing was written.
        let _ = transaction.rollback().await;
        Ok(status)
    };
    let status: OrderStatus = answered(read).await.ok().flatten()?;
    // All of them or none: it was one transaction.
    (status == OrderStatus::Expired).then_some(batch)
}

async fn expire_batch(
    connection: &mut MySqlConnection,
    item: ItemId,
    which: Overdue,
    permits: &mut ItemPermits,
    line: &WaitingLine,
) -> Result<ExpiryBatch, StepError> {
    let mut expired: Vec<Order> = Vec::new();
    let mut left_out = 0;
    let overdue = lock_overdue(connection, item, which).await?;
    // A purchase has a limit while it waits for its item. So limits of other items are not waited for.
    let is_of_item = overdue.iter().all(|order| order.further.is_empty());
    let may_wait = is_of_item && matches!(which, Overdue::First(_));
    for mut order in overdue {
        hold!("overdue-read", order.user_id.get());
        if !may_wait && limit_lock::lock_of_order(connection, &order).await?.is_err() {
            left_out += 1;
            continue;
        }
        set_expired(connection, &order).await?;
        order.change_lines(|line| line.status = OrderStatus::Expired);
        expired.push(order);
    }
    let mut lines: Vec<&Order> = expired.iter().flat_map(Order::lines).collect();
    lines.sort_by_key(|line| (line.item_id, line.user_id, line.id));
    give_limits_back(connection, &lines, true).await?;
    line.outbox().changed(connection, &expired).await?;
    for one in &lines {
        permits.add_of_job(one.item_id);
    }
    let reason = MovementReason::Expired;
    let returned = give_stock_back(connection, &lines, reason, permits, line).await?;
    let first = expired.first().map(|order| order.item_id);
    let at = items::ledger_time(connection, first.as_slice()).await?;
    Ok(ExpiryBatch { orders: expired, left_out, returned, at })
}

/// Reads and locks overdue orders, skipping those that another transaction has locked. They are
/// read in the order of their buyers, as a batch of purchases counts them, so that the two never
/// deadlock.
async fn lock_overdue(
    connection: &mut MySqlConnection,
    item: ItemId,
    which: Overdue,
) -> sqlx::Result<Vec<Order>> {
    let (this_one, limit) = match which {
        Overdue::First(limit) => ("", limit),
        Overdue::One(_) => ("AND id = ?", 1),
    };
    // The lock by a statement of its own: see `orders::lock`.
    let statement = format!(
        "SELECT id FROM orders WHERE item_id = ? AND {OVERDUE} AND {WHOLE} {this_one} \
         ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED"
    );
    let mut query = sqlx::query_scalar(&statement).bind(item.get());
    if let Overdue::One(id) = which {
        query = query.bind(id.to_string());
    }
    let locked: Vec<OrderId> = query.bind(limit).fetch_all(&mut *connection).await?;
    let Some((places, padded)) = in_list(&locked) else { return Ok(Vec::new()) };
    let columns = orders::COLUMNS;
    let statement = format!(
        "SELECT {columns} FROM orders WHERE id IN ({places}) AND item_id = ? AND {OVERDUE}"
    );
    let select = padded.fold(sqlx::query_as(&statement), |select, id| select.bind(id.to_string()));
    let mut overdue: Vec<Order> = select.bind(item.get()).fetch_all(&mut *connection).await?;
    // Whoever changes an order locks its first line first.
    orders::lock_lines(connection, &mut overdue).await?;
    overdue.sort_unstable_by_key(|order| (order.user_id, order.id));
    Ok(overdue)
}

/// Sets an order expired.
///
/// # Errors
/// The database's, and that the order has changed since it was read: some engines accept SKIP LOCKED and lock nothing,
/// so it may have been paid or extended meanwhile. The transaction is rolled back then.
async fn set_expired(connection: &mut MySqlConnection, order: &Order) -> sqlx::Result<()> {
    let lines = LinesOf::order(order).ok_or(sqlx::Error::RowNotFound)?;
    let statement = format!("UPDATE orders SET status = ? WHERE {} AND {OVERDUE}", lines.condition);
    let update = lines.bind(sqlx::query(&statement).bind(OrderStatus::Expired.as_str()));
    let changed = update.execute(connection).await?.rows_affected();
    if changed == lines.rows { Ok(()) } else { Err(sqlx::Error::RowNotFound) }
}
