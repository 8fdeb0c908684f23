//! The transactions behind the steps of an order.

use std::collections::BTreeMap;
use std::slice;

use sqlx::{FromRow, MySqlConnection, Row};
use time::OffsetDateTime;

use super::{StepError, Turn, terms};
use crate::rows::order::orders;
use crate::waiting_list::{LineChange, WaitingLine};
use crate::work::item_permit::{ItemPermit, ItemPermits};
use crate::work::{limit_lock, stock_lock};
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, Fault};
use shop_domain::order::{MovementReason, Step, Transition};
use shop_domain::{ItemId, LedgerError, Order, OrderId, OrderStatus};

/// An order after a step.
#[derive(Clone)]
pub struct StepResult {
    /// The order after the step.
    pub order: Order,
    /// Whether this call changed it.
    pub changed: bool,
    /// What became of the units that the order holds no more, or has taken again: for each item.
    pub returned: Vec<ReturnedUnits>,
}

/// Units of an item that an order holds no more.
#[derive(Clone)]
pub struct ReturnedUnits {
    pub item: ItemId,
    /// Negative when they were taken again.
    pub units: i64,
    /// What became of the stock, and of the buyers who wait for units.
    pub line: LineChange,
}

impl StepResult {
    /// The step changed the order's status alone, or nothing.
    fn without_stock(order: Order, changed: bool) -> Self {
        Self { order, changed, returned: Vec::new() }
    }
}

/// Reads an order with its lines, without a lock.
pub(super) async fn find(pool: &Database, id: OrderId) -> sqlx::Result<Option<Order>> {
    let mut connection = pool.acquire().await?;
    let statement = format!("SELECT {} FROM orders WHERE id = ?", orders::COLUMNS);
    let row = sqlx::query_as(&statement).bind(id.to_string()).fetch_optional(&mut *connection);
    let mut found: Vec<Order> = row.await?.into_iter().collect();
    orders::add_lines(&mut connection, &mut found).await?;
    Ok(found.pop())
}

/// An order whose row and further lines are locked.
pub(super) struct LockedOrder {
    pub(super) order: Order,
    /// The time of the ledger.
    now: OffsetDateTime,
}

/// Locks an order with its lines; `None` when there is none. Whoever changes an order locks its first line first, so
/// that no two wait for each other.
///
/// # Errors
/// The database's, and that lines are missing.
pub(super) async fn lock(
    connection: &mut MySqlConnection,
    id: OrderId,
    turn: &Turn,
) -> sqlx::Result<Option<LockedOrder>> {
    orders::lock(connection, &[id], turn.items.first().copied()).await?;
    let columns = orders::COLUMNS;
    let statement =
        format!("SELECT {columns}, UTC_TIMESTAMP(6) AS ledger_now FROM orders WHERE id = ?");
    let row = sqlx::query(&statement).bind(id.to_string()).first(&mut *connection).await?;
    let Some(row) = row else { return Ok(None) };
    let mut order = Order::from_row(&row)?;
    let now = row.try_get("ledger_now")?;
    if order.is_further_line() {
        return Ok(None);
    }
    orders::lock_lines(connection, slice::from_mut(&mut order)).await?;
    Ok(Some(LockedOrder { order, now }))
}

/// Makes one step within the caller's transaction, which is to be rolled back after an error. The event
/// of a change is written before the stock row is locked.
pub(super) async fn apply(
    connection: &mut MySqlConnection,
    locked: LockedOrder,
    step: Step,
    turn: &Turn,
    line: &WaitingLine,
) -> Result<StepResult, StepError> {
    let LockedOrder { order, now } = locked;
    let permits = &turn.permits;
    lock_limits(connection, &order, step).await?;
    match order.status.step(step) {
        Transition::Already => Ok(StepResult::without_stock(order, false)),
        Transition::Conflict => Err(StepError::Conflict(Box::new(order))),
        Transition::Extend(seconds) => {
            let (order, changed) = terms::extend(connection, order, seconds).await?;
            if changed {
                tell(connection, &order, line).await?;
            }
            Ok(StepResult::without_stock(order, changed))
        }
        Transition::To(status) => {
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            Ok(StepResult::without_stock(order, true))
        }
        Transition::GiveBack(status, reason) => {
            if step == Step::Return {
                terms::begin_return(connection, &order, now).await?;
            }
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            let lines: Vec<&Order> = order.lines().collect();
            give_limits_back(connection, &lines, false).await?;
            let returned = give_stock_back(connection, &lines, reason, permits, line).await?;
            Ok(StepResult { order, changed: true, returned })
        }
        Transition::TakeAgain(status, reason) => {
            let order = set_status(connection, order, status, now).await?;
            tell(connection, &order, line).await?;
            let returned = take_again(connection, &order, reason, permits).await?;
            Ok(StepResult { order, changed: true, returned })
        }
    }
}

/// Locks the limits that a step of an order with several lines changes, and waits for none of them.
async fn lock_limits(
    connection: &mut MySqlConnection,
    order: &Order,
    step: Step,
) -> Result<(), StepError> {
    if order.further.is_empty() || !order.status.step(step).moves_stock() {
        return Ok(());
    }
    let limits = limit_lock::lock_of_order(connection, order).await?;
    let contended = StepError::Ledger(LedgerError::Contended);
    limits.map_err(|item| item.map_or(contended, StepError::Locked))
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
    mut order: Order,
    status: OrderStatus,
    now: OffsetDateTime,
) -> sqlx::Result<Order> {
    let paid_at = if status == OrderStatus::Paid { Some(now) } else { order.paid_at };
    let Some(lines) = orders::LinesOf::order(&order) else { return Ok(order) };
    let statement = format!("UPDATE orders SET status = ?, paid_at = ? WHERE {}", lines.condition);
    let update = sqlx::query(&statement).bind(status.as_str()).bind(paid_at);
    lines.bind(update).execute(connection).await?;
    failpoint!("step-status-set");
    order.change_lines(|line| {
        line.status = status;
        line.paid_at = paid_at;
    });
    Ok(order)
}

/// Gives units back to the limits of their buyers: all by item, then all by group, as a batch of purchases counts them.
/// If `have_expired`, it also counts the holds that have expired. Their limit is compared when the buyer orders again:
/// see `buyer_limits.unpaid_max`.
pub(super) async fn give_limits_back(
    connection: &mut MySqlConnection,
    lines: &[&Order],
    have_expired: bool,
) -> sqlx::Result<()> {
    for one in lines {
        // Lab items without an arbiter count no buyers, so the row may be missing.
        sqlx::query(
            "UPDATE buyer_limits SET bought = bought - ?, expired = expired + ? \
             WHERE item_id = ? AND user_id = ?",
        )
        .binds((one.quantity.signed(), i64::from(have_expired)))
        .binds((one.item_id.get(), one.user_id.get()))
        .run(&mut *connection)
        .await?;
    }
    for one in by_group(lines) {
        count_in_group(connection, one, -one.quantity.signed()).await?;
    }
    Ok(())
}

/// Writes the movements of units, and gives them back to their stock rows, which are locked once and last: before the
/// limits, they could deadlock with a purchase.
pub(super) async fn give_stock_back(
    connection: &mut MySqlConnection,
    lines: &[&Order],
    reason: MovementReason,
    permits: &ItemPermits,
    line: &WaitingLine,
) -> Result<Vec<ReturnedUnits>, StepError> {
    let mut units: BTreeMap<ItemId, i64> = BTreeMap::new();
    for one in lines {
        insert_movement(connection, one, reason, one.quantity.signed()).await?;
        *units.entry(one.item_id).or_default() += one.quantity.signed();
    }
    lock_stock(connection, permits).await?;
    let mut returned = Vec::new();
    for (item, units) in units {
        let line = return_stock(connection, permit_of(permits, item)?, units, line).await?;
        returned.push(ReturnedUnits { item, units, line });
    }
    Ok(returned)
}

/// Locks the stock rows of an order with several lines without a wait for one of them.
async fn lock_stock(
    connection: &mut MySqlConnection,
    permits: &ItemPermits,
) -> Result<(), StepError> {
    stock_lock::lock_all(connection, permits).await?.map_err(StepError::Locked)
}

/// The permit of an item; an error when the order did not seem to move stock before its row was locked.
fn permit_of(permits: &ItemPermits, item: ItemId) -> Result<&ItemPermit, StepError> {
    permits.of(item).ok_or(StepError::Locked(item))
}

/// The lines in the order in which their groups are counted. An item may have changed its group between two orders, so
/// it is not the order of the items.
fn by_group<'o>(lines: &[&'o Order]) -> Vec<&'o Order> {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| (line.limit_group, line.user_id));
    lines
}

/// Counts units against the limit of the group in which the order was counted, if it was.
async fn count_in_group(
    connection: &mut MySqlConnection,
    order: &Order,
    units: i64,
) -> sqlx::Result<()> {
    let Some(group) = order.limit_group else { return Ok(()) };
    sqlx::query("UPDATE group_limits SET bought = bought + ? WHERE group_id = ? AND user_id = ?")
        .binds((units, group.get(), order.user_id.get()))
        .run(connection)
        .await
}

/// Adds units to the stock row, and offers them to the buyers who wait.
async fn return_stock(
    connection: &mut MySqlConnection,
    permit: &ItemPermit,
    units: i64,
    line: &WaitingLine,
) -> sqlx::Result<LineChange> {
    let version = sqlx::query(
        "UPDATE stock SET available = available + ?, version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ?",
    )
    .binds((units, permit.item().get()))
    .noted(&mut *connection)
    .await?;
    let version = version.ok_or(sqlx::Error::RowNotFound)?;
    Ok(line.hand_out(connection, permit).await?.after_return(units, version))
}

/// Takes the units of all lines again for a payment after the hold ran out, if stock and limit allow it. The buyer had
/// them in time, so neither a pause nor the end of the sale refuses the payment.
async fn take_again(
    connection: &mut MySqlConnection,
    order: &Order,
    reason: MovementReason,
    permits: &ItemPermits,
) -> Result<Vec<ReturnedUnits>, StepError> {
    let refused = |error| match Fault::of(&error) {
        Fault::CheckViolated => StepError::LimitReached,
        _ => StepError::from(error),
    };
    let lines: Vec<&Order> = order.lines().collect();
    for one in &lines {
        // The hold was paid after all.
        sqlx::query(
            "UPDATE buyer_limits SET bought = bought + ?, expired = GREATEST(expired, 1) - 1 \
             WHERE item_id = ? AND user_id = ?",
        )
        .binds((one.quantity.signed(), one.item_id.get(), one.user_id.get()))
        .execute(&mut *connection)
        .await
        .map_err(refused)?;
    }
    for one in by_group(&lines) {
        count_in_group(connection, one, one.quantity.signed()).await.map_err(refused)?;
    }
    for one in &lines {
        insert_movement(connection, one, reason, -one.quantity.signed()).await?;
    }
    lock_stock(connection, permits).await?;
    let mut taken = Vec::new();
    for one in lines {
        let item = permit_of(permits, one.item_id)?.item();
        let units = one.quantity.signed();
        let version = sqlx::query(
            "UPDATE stock SET available = available - ?, version = LAST_INSERT_ID(version + 1) \
             WHERE item_id = ? AND available >= ?",
        )
        .binds((units, item.get(), units))
        .noted(&mut *connection)
        .await?;
        let version = version.ok_or(StepError::SoldOut)?;
        let line = LineChange::default().after_return(-units, version);
        taken.push(ReturnedUnits { item, units: -units, line });
    }
    Ok(taken)
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
    .binds((order.item_id.get(), order.id.to_string(), reason.as_str(), delta))
    .run(connection)
    .await
}
