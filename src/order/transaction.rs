//! The transactions behind the steps of an order.

use sqlx::{MySqlConnection, MySqlPool, Row};
use time::OffsetDateTime;

use super::StepError;
use crate::domain::order::{MovementReason, Step, Transition};
use crate::domain::{ItemId, Order, OrderId, OrderStatus, UserId};
use crate::store::mysql::{Fault, orders};

/// An order after a step.
pub(super) struct Stepped {
    /// As it now stands.
    pub order: Order,
    /// Whether this call changed it.
    pub changed: bool,
    /// Units that went back to the stock; negative when they were taken again.
    pub units_returned: i64,
    /// The version of the stock that this made; 0 when no units were moved.
    pub stock_version: u64,
}

/// A batch of orders that have expired.
pub(super) struct Expired {
    /// As they now stand.
    pub orders: Vec<Order>,
    /// The version of the stock that this made; 0 when there are no orders.
    pub stock_version: u64,
}

/// Makes one step of an owner's order. Errors are rolled back.
pub(super) async fn step(
    pool: &MySqlPool,
    id: OrderId,
    owner: UserId,
    step: Step,
    now: OffsetDateTime,
) -> Result<Stepped, StepError> {
    let mut transaction = pool.begin().await.map_err(StepError::Unavailable)?;
    let stepped = match apply(&mut transaction, id, owner, step, now).await {
        Ok(stepped) => stepped,
        Err(error) => {
            // When even this fails the connection is dead, and the server rolls back by itself.
            let _ = transaction.rollback().await;
            return Err(error);
        }
    };
    failpoint!("step-applied");
    transaction.commit().await.map_err(StepError::Unavailable)?;
    failpoint!("step-committed");
    Ok(stepped)
}

async fn apply(
    connection: &mut MySqlConnection,
    id: OrderId,
    owner: UserId,
    step: Step,
    now: OffsetDateTime,
) -> Result<Stepped, StepError> {
    let statement =
        format!("SELECT {} FROM orders WHERE id = ? AND user_id = ? FOR UPDATE", orders::COLUMNS);
    let row = sqlx::query(&statement)
        .bind(id.to_string())
        .bind(owner.get())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StepError::Unavailable)?;
    let order = row.as_ref().map(orders::read).transpose().map_err(StepError::Unavailable)?;
    let order = order.ok_or(StepError::NotFound)?;
    match order.status.step(step) {
        Transition::Already => {
            Ok(Stepped { order, changed: false, units_returned: 0, stock_version: 0 })
        }
        Transition::Conflict => Err(StepError::Conflict(Box::new(order))),
        Transition::To(status) => {
            let order = set_status(connection, order, status, now).await?;
            Ok(Stepped { order, changed: true, units_returned: 0, stock_version: 0 })
        }
        Transition::GiveBack(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            let given_back = give_back(connection, &order, reason, now).await;
            let stock_version = given_back.map_err(StepError::Unavailable)?;
            let units_returned = order.quantity.signed();
            Ok(Stepped { order, changed: true, units_returned, stock_version })
        }
        Transition::TakeAgain(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            let stock_version = take_again(connection, &order, reason, now).await?;
            let units_returned = -order.quantity.signed();
            Ok(Stepped { order, changed: true, units_returned, stock_version })
        }
    }
}

async fn set_status(
    connection: &mut MySqlConnection,
    order: Order,
    status: OrderStatus,
    now: OffsetDateTime,
) -> Result<Order, StepError> {
    let paid_at = if status == OrderStatus::Paid { Some(now) } else { order.paid_at };
    sqlx::query("UPDATE orders SET status = ?, paid_at = ? WHERE id = ?")
        .bind(status.word())
        .bind(paid_at)
        .bind(order.id.to_string())
        .execute(connection)
        .await
        .map_err(StepError::Unavailable)?;
    failpoint!("step-status-set");
    Ok(Order { status, paid_at, ..order })
}

async fn give_back(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
    now: OffsetDateTime,
) -> sqlx::Result<u64> {
    count_back(connection, order, reason, now).await?;
    return_stock(connection, order.item_id, order.quantity.signed()).await
}

/// Everything of giving back but the hot row.
async fn count_back(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    // Lab items without an arbiter count nobody, so the row may be missing.
    sqlx::query("UPDATE buyer_limits SET bought = bought - ? WHERE item_id = ? AND user_id = ?")
        .bind(order.quantity.signed())
        .bind(order.item_id.get())
        .bind(order.user_id.get())
        .execute(&mut *connection)
        .await?;
    insert_movement(connection, order, reason, order.quantity.signed(), now).await
}

/// Answers the version of the stock that it made: by it a counter tells whether it was loaded
/// before or after.
async fn return_stock(
    connection: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<u64> {
    let done = sqlx::query(
        "UPDATE stock SET available = available + ?, version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ?",
    )
    .bind(units)
    .bind(item.get())
    .execute(connection)
    .await?;
    Ok(done.last_insert_id())
}

/// A payment after the hold ran out: the units are taken again, under the same two conditions as
/// a purchase.
async fn take_again(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
    now: OffsetDateTime,
) -> Result<u64, StepError> {
    let (item, units) = (order.item_id.get(), order.quantity.signed());
    sqlx::query("UPDATE buyer_limits SET bought = bought + ? WHERE item_id = ? AND user_id = ?")
        .bind(units)
        .bind(item)
        .bind(order.user_id.get())
        .execute(&mut *connection)
        .await
        .map_err(|error| match Fault::of(&error) {
            Fault::CheckViolated => StepError::LimitReached,
            _ => StepError::Unavailable(error),
        })?;
    insert_movement(connection, order, reason, -units, now)
        .await
        .map_err(StepError::Unavailable)?;
    let taken = sqlx::query(
        "UPDATE stock SET available = available - ?, version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND available >= ?",
    )
    .bind(units)
    .bind(item)
    .bind(units)
    .execute(connection)
    .await
    .map_err(StepError::Unavailable)?;
    if taken.rows_affected() == 1 { Ok(taken.last_insert_id()) } else { Err(StepError::SoldOut) }
}

async fn insert_movement(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
    delta: i64,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(order.item_id.get())
    .bind(order.id.to_string())
    .bind(reason.word())
    .bind(delta)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Expires a batch of one item's overdue orders in one transaction.
pub(super) async fn expire(
    pool: &MySqlPool,
    item: ItemId,
    now: OffsetDateTime,
    limit: u32,
) -> sqlx::Result<Expired> {
    let mut transaction = pool.begin().await?;
    match expire_batch(&mut transaction, item, now, limit).await {
        Ok(expired) => {
            failpoint!("expiry-applied");
            transaction.commit().await?;
            failpoint!("expiry-committed");
            Ok(expired)
        }
        Err(error) => {
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

async fn expire_batch(
    connection: &mut MySqlConnection,
    item: ItemId,
    now: OffsetDateTime,
    limit: u32,
) -> sqlx::Result<Expired> {
    let statement = format!(
        "SELECT {} FROM orders WHERE item_id = ? AND status = 'pending' AND expires_at <= ? \
         ORDER BY expires_at LIMIT ? FOR UPDATE SKIP LOCKED",
        orders::COLUMNS
    );
    let rows = sqlx::query(&statement)
        .bind(item.get())
        .bind(now)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await?;
    let mut expired = Vec::with_capacity(rows.len());
    for row in &rows {
        let order = orders::read(row)?;
        let Transition::GiveBack(status, reason) = order.status.step(Step::Expire) else {
            continue;
        };
        sqlx::query("UPDATE orders SET status = ? WHERE id = ?")
            .bind(status.word())
            .bind(order.id.to_string())
            .execute(&mut *connection)
            .await?;
        count_back(connection, &order, reason, now).await?;
        expired.push(Order { status, ..order });
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

/// The items that have overdue orders.
pub(super) async fn overdue_items(
    pool: &MySqlPool,
    now: OffsetDateTime,
) -> sqlx::Result<Vec<ItemId>> {
    let rows = sqlx::query(
        "SELECT id FROM items WHERE EXISTS (SELECT 1 FROM orders WHERE orders.item_id = items.id \
         AND orders.status = 'pending' AND orders.expires_at <= ?)",
    )
    .bind(now)
    .fetch_all(pool)
    .await?;
    rows.iter().map(|row| ItemId::new(row.try_get("id")?).ok_or(sqlx::Error::RowNotFound)).collect()
}
