//! The transactions behind the steps of an order.

use std::slice;

use sqlx::{MySqlConnection, MySqlPool, Row};
use time::OffsetDateTime;

use super::StepError;
use crate::domain::order::{MovementReason, Step, Transition};
use crate::domain::{ItemId, Order, OrderId, OrderStatus, UserId};
use crate::store::mysql::outbox::Outbox;
use crate::store::mysql::{Destination, Fault, answered, orders};

/// An order after a step.
#[derive(Clone)]
pub(super) struct Stepped {
    /// The order after the step.
    pub order: Order,
    /// Whether this call changed it.
    pub changed: bool,
    /// Units given back to the stock; negative when they were taken again.
    pub units_returned: i64,
    /// The version of the stock after the step; 0 when no units were moved.
    pub stock_version: u64,
}

/// Makes one step of an owner's order. Errors are rolled back. While the COMMIT is not answered,
/// `lost` has the change that it makes if it comes through, also for a caller that stops waiting.
pub(super) async fn step(
    pool: &MySqlPool,
    (id, owner): (OrderId, UserId),
    step: Step,
    outbox: Outbox,
    lost: &mut Option<Stepped>,
) -> Result<Stepped, StepError> {
    let destination = Destination::of(pool);
    let mut transaction = pool.begin().await.map_err(StepError::Unavailable)?;
    let applied = async {
        let stepped = apply(&mut transaction, id, owner, step).await?;
        if stepped.changed {
            let event = outbox.changed(&mut transaction, slice::from_ref(&stepped.order)).await;
            event.map_err(StepError::Unavailable)?;
        }
        Ok(stepped)
    };
    let stepped = match applied.await {
        Ok(stepped) => stepped,
        Err(error) => {
            // If the rollback fails, the connection is dead, and the server rolls back by itself.
            let _ = transaction.rollback().await;
            return Err(error);
        }
    };
    failpoint!("step-applied");
    if stepped.changed {
        *lost = Some(stepped.clone());
    }
    answered(transaction.commit()).await.map_err(StepError::Unavailable)?;
    if destination.has_changed() {
        return Err(StepError::Unavailable(Destination::replaced()));
    }
    if stepped.changed {
        *lost = None;
    }
    failpoint!("step-committed");
    Ok(stepped)
}

/// Makes one step within the caller's transaction, which is to be rolled back after an error.
pub(super) async fn apply(
    connection: &mut MySqlConnection,
    id: OrderId,
    owner: UserId,
    step: Step,
) -> Result<Stepped, StepError> {
    let statement = format!(
        "SELECT {}, UTC_TIMESTAMP(6) AS ledger_now FROM orders \
         WHERE id = ? AND user_id = ? FOR UPDATE",
        orders::COLUMNS
    );
    let row = sqlx::query(&statement)
        .bind(id.to_string())
        .bind(owner.get())
        .fetch_optional(&mut *connection)
        .await
        .map_err(StepError::Unavailable)?;
    let row = row.ok_or(StepError::NotFound)?;
    let order = orders::read(&row).map_err(StepError::Unavailable)?;
    let now = row.try_get("ledger_now").map_err(StepError::Unavailable)?;
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
            let given_back = give_back(connection, &order, reason).await;
            let stock_version = given_back.map_err(StepError::Unavailable)?;
            let units_returned = order.quantity.signed();
            Ok(Stepped { order, changed: true, units_returned, stock_version })
        }
        Transition::TakeAgain(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            let stock_version = take_again(connection, &order, reason).await?;
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
        .bind(status.as_str())
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
) -> sqlx::Result<u64> {
    count_back(connection, order, reason).await?;
    return_stock(connection, order.item_id, order.quantity.signed()).await
}

/// Gives units back to the buyer's limit and writes the movement; the stock row is not touched.
pub(super) async fn count_back(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
) -> sqlx::Result<()> {
    // Lab items without an arbiter count no buyers, so the row may be missing.
    sqlx::query("UPDATE buyer_limits SET bought = bought - ? WHERE item_id = ? AND user_id = ?")
        .bind(order.quantity.signed())
        .bind(order.item_id.get())
        .bind(order.user_id.get())
        .execute(&mut *connection)
        .await?;
    insert_movement(connection, order, reason, order.quantity.signed()).await
}

/// Adds units to the stock row and answers its new version, by which a counter knows whether it was
/// loaded before or after.
pub(super) async fn return_stock(
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

/// Takes the units again for a payment after the hold ran out, under the two conditions of a
/// purchase.
async fn take_again(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
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
    insert_movement(connection, order, reason, -units).await.map_err(StepError::Unavailable)?;
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
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6))",
    )
    .bind(order.item_id.get())
    .bind(order.id.to_string())
    .bind(reason.as_str())
    .bind(delta)
    .execute(connection)
    .await?;
    Ok(())
}
