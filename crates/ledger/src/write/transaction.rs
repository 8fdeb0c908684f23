//! The one transaction: order, limit, movement, and the stock last, so that the hot row is locked
//! for the shortest time. [`OrderWrite::takes_stock_first`] names the writes that take the stock first.
//!
//! READ COMMITTED and by primary key only: no gap locks, and every condition is checked against the
//! latest committed version after waiting for the row. Any error is followed by ROLLBACK.

use sqlx::MySqlConnection;

use super::{Answer, Attempt, Conflict, OrderWrite, StockWrite, WRITTEN_AS, is_guarded, stock};
use crate::rows::order::orders;
use crate::rows::outbox::Outbox;
use crate::write::new_order::{
    Written, count_buyers, count_in_groups, insert_movements, insert_orders, raise_fence,
};
use mysql_connection::limits::TRANSACTION_MAX;
use mysql_connection::statement::Binds;
use mysql_connection::{Database, Fault, answered, begin_on, within};
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

/// Tries the statements of an order, and rolls them back.
pub(super) async fn try_out(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<()> {
    let mut transaction = begin_on(connection).await?;
    if let Err(error) = within(TRANSACTION_MAX, fill(&mut transaction, write, outbox)).await {
        transaction.roll_back_after(&error).await;
        return Err(error);
    }
    transaction.rollback().await
}

/// All statements before COMMIT. `Some` ends the purchase, and the transaction must be rolled back.
async fn fill(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Option<Answer>> {
    let OrderWrite { purchase, fence, stock, .. } = *write;
    let is_guarded = is_guarded(purchase);
    let is_stock_first = write.takes_stock_first();
    if is_stock_first && let Some(answer) = stock::take(connection, purchase, stock, outbox).await?
    {
        return Ok(Some(answer));
    }
    if let Some(table) = stock.table()
        && !table.take(connection, purchase).await?
    {
        return Ok(Some(Err(Conflict::NothingFree)));
    }
    let sequence = match fence {
        Some(fence) if is_guarded => match raise_fence(connection, purchase, fence).await? {
            Ok(sequence) => Some(sequence),
            Err(conflict) => return Ok(Some(Err(conflict))),
        },
        _ => None,
    };
    failpoint!("fence-raised");
    let written = Written { status: WRITTEN_AS, fence, fence_sequence: sequence };
    insert_orders(connection, &[purchase], &written).await?;
    failpoint!("order-inserted");
    if is_guarded {
        let counted = [(purchase, purchase.quantity.signed())];
        count_buyers(connection, &counted, matches!(stock, StockWrite::Offered)).await?;
        if purchase.counted_group().is_some() {
            count_in_groups(connection, &counted).await?;
        }
    }
    failpoint!("buyer-counted");
    insert_movements(connection, &[purchase]).await?;
    outbox.inserted(connection, &[purchase], WRITTEN_AS).await?;
    failpoint!("movement-inserted");
    if is_stock_first {
        return Ok(None);
    }
    let refusal = stock::take(connection, purchase, stock, outbox).await?;
    failpoint!("stock-taken");
    Ok(refusal)
}

/// Finds a purchase's order by its key, waiting for a transaction that still holds the row.
pub(super) async fn find_locking(
    pool: &Database,
    purchase: &Purchase,
) -> sqlx::Result<Option<Order>> {
    let Purchase { item, buyer, key, .. } = purchase;
    // By a statement of its own: see `orders::lock`.
    let lock =
        "SELECT id FROM orders WHERE item_id = ? AND user_id = ? AND request_key = ? FOR UPDATE";
    let look = async {
        let mut connection = pool.after_lost_commit().await?;
        let mut transaction = begin_on(&mut connection).await?;
        sqlx::query(lock)
            .binds((item.id.get(), buyer.get(), key.as_str()))
            .fetch_optional(&mut *transaction)
            .await?;
        let found = orders::find_by_key(&mut *transaction, *buyer, item.id, key).await?;
        // Nothing was written, and the lock was all that was wanted.
        let _ = transaction.rollback().await;
        Ok(found)
    };
    answered(look).await
}
