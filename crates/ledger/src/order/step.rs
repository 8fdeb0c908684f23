//! The transactions behind the steps of an order.

use std::slice;

use sqlx::{MySqlConnection, Row};
use time::OffsetDateTime;

use super::StepError;
use crate::Database;
use crate::rows::stock::check_home;
use crate::rows::{Fault, moved, orders};
use crate::waiting_list::{LineChange, WaitingLine};
use shop_domain::order::{MovementReason, Step, Transition};
use shop_domain::{Home, ItemId, ItemRoute, Order, OrderId, OrderStatus, UserId};

/// An order after a step.
#[derive(Clone)]
pub struct StepResult {
    /// The order after the step.
    pub order: Order,
    /// Whether this call changed it.
    pub changed: bool,
    /// Units of the order that it holds no more; negative when they were taken again.
    pub units_returned: i64,
    /// What became of the stock, and of the buyers who wait for units.
    pub line: LineChange,
}

impl StepResult {
    /// The step changed the order's status alone, or nothing.
    fn without_stock(order: Order, changed: bool) -> Self {
        Self { order, changed, units_returned: 0, line: LineChange::default() }
    }

    /// The change by a step: this one of its last attempt, or that of an earlier attempt whose COMMIT was not
    /// answered.
    pub(super) fn or_before(self, sent: Option<Self>) -> Self {
        match sent {
            Some(sent) if !self.changed && sent.order.status == self.order.status => sent,
            _ => self,
        }
    }
}

/// Reads an order's item and status without a lock.
pub(super) async fn item_and_status(
    pool: &Database,
    id: OrderId,
) -> sqlx::Result<Option<(ItemId, OrderStatus)>> {
    sqlx::query_as("SELECT item_id, status FROM orders WHERE id = ?")
        .bind(id.to_string())
        .fetch_optional(pool)
        .await
}

/// Makes one step within the caller's transaction, which is to be rolled back after an error. The event
/// of a change is written before the stock row is locked. `home` is the route to the order's item.
pub(super) async fn apply(
    connection: &mut MySqlConnection,
    (id, owner): (OrderId, UserId),
    (step, home): (Step, Home),
    line: &WaitingLine,
) -> Result<StepResult, StepError> {
    let statement = format!(
        "SELECT {}, UTC_TIMESTAMP(6) AS ledger_now FROM orders \
         WHERE id = ? AND user_id = ? FOR UPDATE",
        orders::COLUMNS
    );
    let row = sqlx::query(&statement)
        .bind(id.to_string())
        .bind(owner.get())
        .fetch_optional(&mut *connection)
        .await?;
    // With several ledgers it was found before the step.
    let row = row.ok_or(if home.is_only { StepError::NotFound } else { StepError::Moving })?;
    let order = orders::read(&row)?;
    let now = row.try_get("ledger_now")?;
    let routed = ItemRoute { item: order.item_id, home };
    match order.status.step(step) {
        // Nothing is written, but a row that a move has left behind says nothing of the order.
        Transition::Already => {
            check_home(connection, routed).await?;
            Ok(StepResult::without_stock(order, false))
        }
        Transition::Conflict => {
            check_home(connection, routed).await?;
            Err(StepError::Conflict(Box::new(order)))
        }
        Transition::To(status) => {
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            check_home(connection, routed).await?;
            Ok(StepResult::without_stock(order, true))
        }
        Transition::GiveBack(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            let line = give_back(connection, &order, (reason, home), line).await?;
            let units_returned = order.quantity.signed();
            Ok(StepResult { order, changed: true, units_returned, line })
        }
        Transition::TakeAgain(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            let version = match take_again(connection, &order, (reason, home)).await {
                Err(StepError::LimitReached) => {
                    check_home(connection, routed).await?;
                    return Err(StepError::LimitReached);
                }
                taken => taken?,
            };
            let units_returned = -order.quantity.signed();
            let line = LineChange::default().after_return(units_returned, version);
            Ok(StepResult { order, changed: true, units_returned, line })
        }
    }
}

/// Writes the event of a changed order.
async fn tell(
    connection: &mut MySqlConnection,
    order: &Order,
    line: &WaitingLine,
) -> sqlx::Result<()> {
    line.outbox().changed(connection, slice::from_ref(order)).await
}

async fn set_status(
    connection: &mut MySqlConnection,
    order: Order,
    status: OrderStatus,
    now: OffsetDateTime,
) -> sqlx::Result<Order> {
    let paid_at = if status == OrderStatus::Paid { Some(now) } else { order.paid_at };
    sqlx::query("UPDATE orders SET status = ?, paid_at = ? WHERE id = ?")
        .bind(status.as_str())
        .bind(paid_at)
        .bind(order.id.to_string())
        .execute(connection)
        .await?;
    failpoint!("step-status-set");
    Ok(Order { status, paid_at, ..order })
}

async fn give_back(
    connection: &mut MySqlConnection,
    order: &Order,
    (reason, home): (MovementReason, Home),
    line: &WaitingLine,
) -> sqlx::Result<LineChange> {
    count_back(connection, order).await?;
    count_back_in_group(connection, order).await?;
    insert_movement(connection, order, reason, order.quantity.signed()).await?;
    let routed = ItemRoute { item: order.item_id, home };
    return_stock(connection, routed, order.quantity.signed(), line).await
}

/// Gives units back to the buyer's limit.
pub(super) async fn count_back(
    connection: &mut MySqlConnection,
    order: &Order,
) -> sqlx::Result<()> {
    // Lab items without an arbiter count no buyers, so the row may be missing.
    sqlx::query("UPDATE buyer_limits SET bought = bought - ? WHERE item_id = ? AND user_id = ?")
        .bind(order.quantity.signed())
        .bind(order.item_id.get())
        .bind(order.user_id.get())
        .execute(connection)
        .await?;
    Ok(())
}

/// Gives units back to the limit of the group in which the order was counted, if it was.
pub(super) async fn count_back_in_group(
    connection: &mut MySqlConnection,
    order: &Order,
) -> sqlx::Result<()> {
    count_in_group(connection, order, -order.quantity.signed()).await
}

async fn count_in_group(
    connection: &mut MySqlConnection,
    order: &Order,
    units: i64,
) -> sqlx::Result<()> {
    let Some(group) = order.limit_group else { return Ok(()) };
    sqlx::query("UPDATE group_limits SET bought = bought + ? WHERE group_id = ? AND user_id = ?")
        .bind(units)
        .bind(group.get())
        .bind(order.user_id.get())
        .execute(connection)
        .await?;
    Ok(())
}

/// Adds units to the stock row, and offers them to the buyers who wait.
pub(super) async fn return_stock(
    connection: &mut MySqlConnection,
    routed: ItemRoute,
    units: i64,
    line: &WaitingLine,
) -> sqlx::Result<LineChange> {
    let done = sqlx::query(
        "UPDATE stock SET available = available + ?, version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND home_epoch = ?",
    )
    .bind(units)
    .bind(routed.item.get())
    .bind(routed.home.epoch)
    .execute(&mut *connection)
    .await?;
    if done.rows_affected() != 1 {
        return Err(moved());
    }
    let version = done.last_insert_id();
    Ok(line.hand_out(connection, routed).await?.after_return(units, version))
}

/// Takes the units again for a payment after the hold ran out, under the two conditions of a
/// purchase. An item whose orders are archived has none for it.
async fn take_again(
    connection: &mut MySqlConnection,
    order: &Order,
    (reason, home): (MovementReason, Home),
) -> Result<u64, StepError> {
    let (item, units) = (order.item_id.get(), order.quantity.signed());
    let refused = |error| match Fault::of(&error) {
        Fault::CheckViolated => StepError::LimitReached,
        _ => StepError::from(error),
    };
    sqlx::query("UPDATE buyer_limits SET bought = bought + ? WHERE item_id = ? AND user_id = ?")
        .bind(units)
        .bind(item)
        .bind(order.user_id.get())
        .execute(&mut *connection)
        .await
        .map_err(refused)?;
    count_in_group(connection, order, units).await.map_err(refused)?;
    insert_movement(connection, order, reason, -units).await?;
    let taken = sqlx::query(
        "UPDATE stock SET available = available - ?, version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND available >= ? AND home_epoch = ? AND archive = 0",
    )
    .bind(units)
    .bind(item)
    .bind(units)
    .bind(home.epoch)
    .execute(&mut *connection)
    .await?;
    if taken.rows_affected() == 1 {
        return Ok(taken.last_insert_id());
    }
    check_home(connection, ItemRoute { item: order.item_id, home }).await?;
    Err(StepError::SoldOut)
}

pub(super) async fn insert_movement(
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
