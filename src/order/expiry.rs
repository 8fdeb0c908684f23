//! The transactions behind the sweep that ends holds.
//!
//! The database's clock judges: it is compared with `expires_at` in the statement itself, so that no
//! instance whose own clock is wrong ends a hold.

use sqlx::{MySqlConnection, MySqlPool};

use super::transaction::{count_back, return_stock};
use crate::domain::order::{Step, Transition};
use crate::domain::{ItemId, Order, OrderId, OrderStatus};
use crate::store::mysql::{answered, orders};

/// The orders whose hold has run out.
const OVERDUE: &str = "orders.status = 'pending' AND orders.expires_at <= UTC_TIMESTAMP(6)";

/// A batch of orders that have expired.
pub(super) struct Expired {
    /// As they now stand.
    pub orders: Vec<Order>,
    /// The version of the stock that this made; 0 when there are no orders.
    pub stock_version: u64,
}

/// Expires overdue orders of one item in one transaction, oldest first: at most `limit`, or `only`
/// one. Errors are rolled back.
pub(super) async fn expire(
    pool: &MySqlPool,
    item: ItemId,
    only: Option<OrderId>,
    limit: u32,
) -> sqlx::Result<Expired> {
    let mut transaction = pool.begin().await?;
    match expire_batch(&mut transaction, item, only, limit).await {
        Ok(expired) => {
            failpoint!("expiry-applied");
            if let Err(error) = answered(transaction.commit()).await {
                return came_through(pool, expired).await.ok_or(error);
            }
            failpoint!("expiry-committed");
            Ok(expired)
        }
        Err(error) => {
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

/// The orders of a batch whose COMMIT was not answered, if it came through. Nobody does it again, so
/// nobody else would tell their owners. The read waits for a COMMIT that is only slow.
async fn came_through(pool: &MySqlPool, batch: Expired) -> Option<Expired> {
    let first = batch.orders.first()?;
    let status = sqlx::query_scalar("SELECT status FROM orders WHERE id = ? FOR UPDATE")
        .bind(first.id.to_string())
        .fetch_optional(pool);
    let status: OrderStatus = answered(status).await.ok().flatten()?;
    // All of them or none: it was one transaction.
    (status == OrderStatus::Expired).then_some(batch)
}

async fn expire_batch(
    connection: &mut MySqlConnection,
    item: ItemId,
    only: Option<OrderId>,
    limit: u32,
) -> sqlx::Result<Expired> {
    let mut expired = Vec::new();
    for order in read_overdue(connection, item, only, limit).await? {
        let Transition::GiveBack(status, reason) = order.status.step(Step::Expire) else {
            continue;
        };
        if set_expired(connection, &order, status).await? {
            count_back(connection, &order, reason).await?;
            expired.push(Order { status, ..order });
        }
    }
    // The hot row once and last: held while limits are still being taken, it would wait in a
    // circle with a purchase.
    let units: i64 = expired.iter().map(|order| order.quantity.signed()).sum();
    let stock_version = match units {
        0 => 0,
        units => return_stock(connection, item, units).await?,
    };
    Ok(Expired { orders: expired, stock_version })
}

/// Reads and locks overdue orders, skipping those that another transaction works on. In the order of
/// their buyers: a batch of purchases counts its buyers in this order, too, so that the two never
/// wait for each other in a circle.
async fn read_overdue(
    connection: &mut MySqlConnection,
    item: ItemId,
    only: Option<OrderId>,
    limit: u32,
) -> sqlx::Result<Vec<Order>> {
    let this_one = if only.is_some() { "AND id = ?" } else { "" };
    let statement = format!(
        "SELECT {} FROM orders WHERE item_id = ? AND {OVERDUE} {this_one} \
         ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED",
        orders::COLUMNS
    );
    let mut query = sqlx::query_as(&statement).bind(item.get());
    if let Some(id) = only {
        query = query.bind(id.to_string());
    }
    let mut overdue: Vec<Order> = query.bind(limit).fetch_all(connection).await?;
    overdue.sort_unstable_by_key(|order| (order.user_id, order.id));
    Ok(overdue)
}

/// Whether it was still as it was read. There are engines that read SKIP LOCKED and lock nothing;
/// there, it may have been paid meanwhile.
async fn set_expired(
    connection: &mut MySqlConnection,
    order: &Order,
    status: OrderStatus,
) -> sqlx::Result<bool> {
    let done = sqlx::query("UPDATE orders SET status = ? WHERE id = ? AND status = 'pending'")
        .bind(status.as_str())
        .bind(order.id.to_string())
        .execute(connection)
        .await?;
    Ok(done.rows_affected() == 1)
}

/// The ids of at most `limit` overdue orders of an item, oldest first.
pub(super) async fn overdue_orders(
    pool: &MySqlPool,
    item: ItemId,
    limit: u32,
) -> sqlx::Result<Vec<OrderId>> {
    let statement = format!(
        "SELECT id FROM orders WHERE item_id = ? AND {OVERDUE} ORDER BY expires_at LIMIT ?"
    );
    sqlx::query_scalar(&statement).bind(item.get()).bind(limit).fetch_all(pool).await
}

/// The items that have overdue orders.
pub(super) async fn overdue_items(pool: &MySqlPool) -> sqlx::Result<Vec<ItemId>> {
    let statement = format!(
        "SELECT id FROM items WHERE EXISTS \
         (SELECT 1 FROM orders WHERE orders.item_id = items.id AND {OVERDUE})"
    );
    sqlx::query_scalar(&statement).fetch_all(pool).await
}
