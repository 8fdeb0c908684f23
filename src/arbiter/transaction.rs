//! The one transaction: order, limit, movement, and the stock last, so that the hot row is locked
//! for the shortest time.
//!
//! READ COMMITTED and by primary key only: no gap locks, and every condition is judged on the
//! latest committed version after waiting for the row. Any error is followed by ROLLBACK.

use sqlx::{Connection, MySqlConnection, MySqlPool, Row};

use super::{Attempt, Bare, Verdict, WRITTEN_AS, Write, bare, is_guarded};
use crate::domain::order::MovementReason;
use crate::domain::{Order, Purchase, Refusal};
use crate::store::mysql::link::{TRANSACTION_MAX, roll_back};
use crate::store::mysql::{Fault, answered, orders, within};

/// A lock's token together with the counter that it comes from: tokens of different backends
/// cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Names the counter, at most 32 characters.
    pub backend: &'static str,
    /// The token.
    pub token: u64,
}

/// One try. `Err` means that nothing was committed and the transaction was rolled back.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    write: &Write<'_>,
    stock_written: &mut (dyn FnMut() + Send),
) -> sqlx::Result<Attempt> {
    let mut transaction = answered(connection.begin()).await?;
    failpoint!("begun");
    let filled = within(TRANSACTION_MAX, fill(&mut transaction, write, stock_written)).await;
    let refusal = match filled {
        Ok(refusal) => refusal,
        Err(error) => {
            roll_back(transaction, &error).await;
            return Err(error);
        }
    };
    if let Some(verdict) = refusal {
        answered(transaction.rollback()).await?;
        return Ok(Attempt::Done(verdict));
    }
    match answered(transaction.commit()).await {
        Ok(()) => {
            failpoint!("committed");
            let token = write.fence.map(|fence| fence.token);
            Ok(Attempt::Done(Verdict::Sold(write.purchase.order(WRITTEN_AS, token))))
        }
        Err(error) if Fault::of(&error) == Fault::Transient => Err(error),
        Err(error) => {
            tracing::warn!(%error, order = %write.purchase.order_id, "a COMMIT was not answered");
            Ok(Attempt::CommitLost)
        }
    }
}

/// All statements before COMMIT. `Some` is a refusal that must be rolled back.
async fn fill(
    connection: &mut MySqlConnection,
    write: &Write<'_>,
    stock_written: &mut (dyn FnMut() + Send),
) -> sqlx::Result<Option<Verdict>> {
    let purchase = write.purchase;
    if !is_guarded(purchase) {
        let early = matches!(write.bare, Bare::SetEarly { .. });
        if early {
            if let Some(refusal) = bare::take(connection, purchase, &write.bare).await? {
                return Ok(Some(refusal));
            }
            stock_written();
        }
        insert_orders(connection, std::slice::from_ref(write), None).await?;
        insert_movement(connection, purchase).await?;
        return if early { Ok(None) } else { bare::take(connection, purchase, &write.bare).await };
    }
    let sequence = match write.fence {
        Some(fence) => match raise_fence(connection, purchase, fence).await? {
            Raised::Accepted { sequence } => Some(sequence),
            Raised::Late { accepted } => return Ok(Some(Verdict::Fenced { accepted })),
        },
        None => None,
    };
    failpoint!("fence-raised");
    insert_orders(connection, std::slice::from_ref(write), sequence).await?;
    failpoint!("order-inserted");
    count_buyer(connection, purchase).await?;
    failpoint!("buyer-counted");
    insert_movement(connection, purchase).await?;
    failpoint!("movement-inserted");
    let refusal = take_stock(connection, write).await?;
    failpoint!("stock-taken");
    Ok(refusal)
}

/// What the comparison of a write's fence with those before it came to.
pub(super) enum Raised {
    /// None before it is later. Its orders keep the number of the write, so that the audit can tell
    /// in which order writes were accepted.
    Accepted {
        /// The number of this write among those under the same counter, from 1 on.
        sequence: u64,
    },
    /// A later holder has written.
    Late {
        /// The highest token that was accepted.
        accepted: u64,
    },
}

/// Raises the accepted fence and counts the write, unless a later fence was accepted before.
pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    purchase: &Purchase,
    fence: Fence,
) -> sqlx::Result<Raised> {
    let item = purchase.item.id.get();
    // LAST_INSERT_ID(n) answers n with the statement, which spares a SELECT.
    let raised = sqlx::query(
        "UPDATE fences SET fence = ?, accepted_writes = LAST_INSERT_ID(accepted_writes + 1) \
         WHERE item_id = ? AND backend = ? AND fence <= ?",
    )
    .bind(fence.token)
    .bind(item)
    .bind(fence.backend)
    .bind(fence.token)
    .execute(&mut *connection)
    .await?;
    if raised.rows_affected() == 1 {
        return Ok(Raised::Accepted { sequence: raised.last_insert_id() });
    }
    // The row is missing (the item's first write under this backend) or holds a later token.
    let first = sqlx::query(
        "INSERT IGNORE INTO fences (item_id, backend, fence, accepted_writes) VALUES (?, ?, ?, 1)",
    )
    .bind(item)
    .bind(fence.backend)
    .bind(fence.token)
    .execute(&mut *connection)
    .await?;
    if first.rows_affected() == 1 {
        return Ok(Raised::Accepted { sequence: 1 });
    }
    let row = sqlx::query("SELECT fence FROM fences WHERE item_id = ? AND backend = ?")
        .bind(item)
        .bind(fence.backend)
        .fetch_one(&mut *connection)
        .await?;
    Ok(Raised::Late { accepted: row.try_get("fence")? })
}

/// Inserts orders with one statement, which are all of the write that was accepted with this
/// `sequence`. A lane passes a few fixed numbers of them, so that each statement is prepared once.
pub(super) async fn insert_orders(
    connection: &mut MySqlConnection,
    writes: &[Write<'_>],
    sequence: Option<u64>,
) -> sqlx::Result<()> {
    let status = WRITTEN_AS.word();
    let place = format!("(?, ?, ?, ?, ?, '{status}', ?, ?, ?, ?, ?, ?, ?)");
    let places = vec![place; writes.len()].join(", ");
    let statement = format!(
        "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
         fence, fence_backend, fence_sequence, request_key, created_at, expires_at) VALUES {places}"
    );
    let mut query = sqlx::query(&statement);
    for write in writes {
        let purchase = write.purchase;
        query = query
            .bind(purchase.order_id.to_string())
            .bind(purchase.item.id.get())
            .bind(purchase.buyer.get())
            .bind(purchase.quantity.units())
            .bind(purchase.amount.cents())
            .bind(purchase.strategy)
            .bind(write.fence.map(|fence| fence.token))
            .bind(write.fence.map(|fence| fence.backend))
            .bind(sequence)
            .bind(purchase.key.as_str())
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
    .bind(MovementReason::Sold.word())
    .bind(-purchase.quantity.signed())
    .bind(purchase.created_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// The condition that nothing gets past.
async fn take_stock(
    connection: &mut MySqlConnection,
    write: &Write<'_>,
) -> sqlx::Result<Option<Verdict>> {
    let (item, units) = (write.purchase.item.id.get(), write.purchase.quantity.signed());
    if write.bare == Bare::LockRow
        && let Err(refusal) = bare::lock_row(connection, write.purchase).await?
    {
        return Ok(Some(refusal));
    }
    let changed_at_seen = match write.bare {
        Bare::CompareTimestamp { changed_at, .. } => Some(changed_at),
        _ => None,
    };
    let statement = match (write.version_seen, changed_at_seen) {
        (None, None) => {
            "UPDATE stock SET available = available - ?, version = version + 1 \
             WHERE item_id = ? AND available >= ?"
        }
        (Some(_), _) => {
            "UPDATE stock SET available = available - ?, version = version + 1 \
             WHERE item_id = ? AND available >= ? AND version = ?"
        }
        (None, Some(_)) => {
            "UPDATE stock SET available = available - ?, version = version + 1 \
             WHERE item_id = ? AND available >= ? AND changed_at = ?"
        }
    };
    let mut update = sqlx::query(statement).bind(units).bind(item).bind(units);
    match (write.version_seen, changed_at_seen) {
        (Some(version), _) => update = update.bind(version),
        (None, Some(changed_at)) => update = update.bind(changed_at),
        (None, None) => {}
    }
    if update.execute(&mut *connection).await?.rows_affected() == 1 {
        return Ok(None);
    }
    let compared = write.version_seen.is_some() || changed_at_seen.is_some();
    let row = sqlx::query("SELECT available FROM stock WHERE item_id = ?")
        .bind(item)
        .fetch_optional(&mut *connection)
        .await?;
    let available = row.map(|row| row.try_get::<i64, _>("available")).transpose()?;
    Ok(Some(match available {
        None => Verdict::Refused(Refusal::ItemNotFound),
        Some(left) if left >= units && compared => Verdict::Stale,
        Some(_) => Verdict::Refused(Refusal::SoldOut),
    }))
}

/// Finds a purchase's order by its key, waiting for a transaction that still holds the row.
pub(super) async fn find_locking(
    pool: &MySqlPool,
    purchase: &Purchase,
) -> sqlx::Result<Option<Order>> {
    let statement = format!(
        "SELECT {} FROM orders WHERE user_id = ? AND item_id = ? AND request_key = ? FOR UPDATE",
        orders::COLUMNS
    );
    // Autocommit: the lock goes as soon as it was had.
    let row = sqlx::query(&statement)
        .bind(purchase.buyer.get())
        .bind(purchase.item.id.get())
        .bind(purchase.key.as_str())
        .fetch_optional(pool);
    let row = answered(row).await?;
    row.as_ref().map(orders::read).transpose()
}
