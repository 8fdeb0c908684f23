//! The one transaction: order, limit, movement, and the stock last, so that the hot row is locked
//! for the shortest time.
//!
//! READ COMMITTED and by primary key only: no gap locks, and every condition is checked against the
//! latest committed version after waiting for the row. Any error is followed by ROLLBACK.

use crate::Database;
use sqlx::MySqlConnection;

use super::fence::{Fence, Raised, raise_fence};
use super::{
    Answer, Attempt, Conflict, OrderWrite, StockWrite, UnguardedWrite, WRITTEN_AS, is_guarded,
    stock,
};
use crate::rows::link::TRANSACTION_MAX;
use crate::rows::outbox::Outbox;
use crate::rows::{Fault, answered, begin_on, lost_commit, orders, within};
use shop_domain::order::MovementReason;
use shop_domain::{Order, Outcome, Purchase};

/// One try. `Err` means that nothing was committed and the transaction was rolled back.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Attempt> {
    let span = write.purchase.trace.span("transaction");
    let mut transaction = begin_on(connection).await?;
    failpoint!("begun");
    let refusal = match within(TRANSACTION_MAX, fill(&mut transaction, write, outbox)).await {
        Ok(refusal) => refusal,
        Err(error) => {
            transaction.roll_back_after(&error).await;
            return Err(error);
        }
    };
    if let Some(answer) = refusal {
        transaction.rollback().await?;
        return Ok(Attempt::Done(answer));
    }
    let committed = {
        let _span = span.span("COMMIT");
        transaction.commit().await
    };
    match committed {
        Ok(()) => {
            failpoint!("committed");
            let token = write.fence.map(|fence| fence.token);
            Ok(Attempt::Done(Ok(Outcome::Sold(write.purchase.order(WRITTEN_AS, token)))))
        }
        Err(error) if Fault::of(&error) == Fault::Transient => Err(error),
        Err(error) => {
            tracing::warn!(%error, order = %write.purchase.order_id, "COMMIT not answered");
            Ok(Attempt::CommitLost)
        }
    }
}

/// All statements before COMMIT. `Some` ends the purchase, and the transaction must be rolled back.
async fn fill(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Option<Answer>> {
    let OrderWrite { purchase, fence, stock, .. } = *write;
    let is_guarded = is_guarded(purchase);
    let is_stock_first = matches!(stock, StockWrite::Unguarded(UnguardedWrite::SetFirst { .. }));
    if is_stock_first && let Some(answer) = stock::take(connection, purchase, stock, outbox).await?
    {
        return Ok(Some(answer));
    }
    let sequence = match fence {
        Some(fence) if is_guarded => match raise_fence(connection, purchase, fence).await? {
            Raised::Accepted { sequence } => Some(sequence),
            Raised::Late { accepted } => return Ok(Some(Err(Conflict::Fenced { accepted }))),
        },
        _ => None,
    };
    failpoint!("fence-raised");
    insert_orders(connection, &[purchase], fence, sequence).await?;
    failpoint!("order-inserted");
    if is_guarded {
        count_buyer(connection, purchase).await?;
        count_in_group(connection, purchase).await?;
    }
    failpoint!("buyer-counted");
    insert_movement(connection, purchase).await?;
    outbox.inserted(connection, &[purchase], WRITTEN_AS).await?;
    failpoint!("movement-inserted");
    if is_stock_first {
        return Ok(None);
    }
    let refusal = stock::take(connection, purchase, stock, outbox).await?;
    failpoint!("stock-taken");
    Ok(refusal)
}

/// Inserts orders with one statement, which are all of the write that was accepted with this
/// `sequence`. A batch passes a few fixed numbers of them, so that each statement is prepared once.
pub(super) async fn insert_orders(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    fence: Option<Fence>,
    sequence: Option<u64>,
) -> sqlx::Result<()> {
    let status = WRITTEN_AS.as_str();
    let placeholder = format!("(?, ?, ?, ?, ?, '{status}', ?, ?, ?, ?, ?, ?, ?, ?)");
    let placeholders = vec![placeholder; purchases.len()].join(", ");
    let statement = format!(
        "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
         fence, fence_backend, fence_sequence, request_key, limit_group_id, created_at, expires_at) \
         VALUES {placeholders}"
    );
    let mut query = sqlx::query(&statement);
    for purchase in purchases {
        query = query
            .bind(purchase.order_id.to_string())
            .bind(purchase.item.id.get())
            .bind(purchase.buyer.get())
            .bind(purchase.quantity.units())
            .bind(purchase.amount.cents())
            .bind(purchase.strategy)
            .bind(fence.map(|fence| fence.token))
            .bind(fence.map(|fence| fence.backend))
            .bind(sequence)
            .bind(purchase.key.as_str())
            .bind(purchase.counted_group().map(|group| group.id.get()))
            .bind(purchase.created_at)
            .bind(purchase.expires_at);
    }
    query.execute(connection).await?;
    Ok(())
}

/// Counts the units against the buyer's limit; the table's CHECK refuses the unit too many.
async fn count_buyer(connection: &mut MySqlConnection, purchase: &Purchase) -> sqlx::Result<()> {
    let (units, limit) = (purchase.quantity.units(), purchase.item.per_buyer_limit);
    sqlx::query(
        "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, ?, ?, ?) \
         ON DUPLICATE KEY UPDATE bought = bought + ?, allowed = ?",
    )
    .bind(purchase.item.id.get())
    .bind(purchase.buyer.get())
    .bind(units)
    .bind(limit)
    .bind(units)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(())
}

/// Counts the units against the limit of the item's group, if it is in one.
async fn count_in_group(connection: &mut MySqlConnection, purchase: &Purchase) -> sqlx::Result<()> {
    let Some(group) = purchase.counted_group() else { return Ok(()) };
    let (units, limit) = (purchase.quantity.units(), group.per_buyer_limit);
    sqlx::query(
        "INSERT INTO group_limits (group_id, user_id, bought, allowed) VALUES (?, ?, ?, ?) \
         ON DUPLICATE KEY UPDATE bought = bought + ?, allowed = ?",
    )
    .bind(group.id.get())
    .bind(purchase.buyer.get())
    .bind(units)
    .bind(limit)
    .bind(units)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert_movement(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (?, ?, ?, ?, ?)",
    )
    .bind(purchase.item.id.get())
    .bind(purchase.order_id.to_string())
    .bind(MovementReason::Sold.as_str())
    .bind(-purchase.quantity.signed())
    .bind(purchase.created_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// Finds a purchase's order by its key, waiting for a transaction that still holds the row.
pub(super) async fn find_locking(
    pool: &Database,
    purchase: &Purchase,
) -> sqlx::Result<Option<Order>> {
    let statement = format!(
        "SELECT {} FROM orders WHERE user_id = ? AND item_id = ? AND request_key = ? FOR UPDATE",
        orders::COLUMNS
    );
    let look = async {
        let mut connection = lost_commit::connection(pool).await?;
        let mut transaction = begin_on(&mut connection).await?;
        let row = sqlx::query(&statement)
            .bind(purchase.buyer.get())
            .bind(purchase.item.id.get())
            .bind(purchase.key.as_str())
            .fetch_optional(&mut *transaction)
            .await?;
        // Nothing was written, and the lock was all that was wanted.
        let _ = transaction.rollback().await;
        Ok(row)
    };
    let row = answered(look).await?;
    row.as_ref().map(orders::read).transpose()
}
