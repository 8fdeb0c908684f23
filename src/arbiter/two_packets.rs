//! The one transaction in two packets: BEGIN with all rows but the stock's, then the stock with COMMIT.
//!
//! The hot row is locked from its UPDATE to the COMMIT behind it in the same packet, so no longer than
//! the flush of the log takes. The statements and their order are those of `transaction.rs`. The order
//! is inserted before COMMIT is sent, so a COMMIT without an answer is found out by the order's key, as
//! it is there: a packet with both could run after the ledger was asked.
//!
//! A write that compares the row with what was read takes the stock first instead. Most tries of such
//! a gate fail, and then they have written nothing else. It locks the row before the buyer's limit,
//! against the order of the others, so two orders of one buyer may deadlock; one of them tries again.

use sqlx::{Executor, MySqlConnection};

use super::fence::{Fence, Raised, raise_fence};
use super::packet::{OrNull, Packet, Text, Time, is_not_one_row};
use super::stock::{self, StockWrite};
use super::{Answer, Attempt, Conflict, OrderWrite, WRITTEN_AS, is_guarded};
use crate::domain::order::MovementReason;
use crate::domain::{Outcome, Purchase};
use crate::store::mysql::link::{ANSWER_MAX, TRANSACTION_MAX, is_silence};
use crate::store::mysql::outbox::{NewEvent, Outbox};
use crate::store::mysql::{Fault, answered, within};

/// One try. `Err` means that nothing was committed and the transaction was rolled back.
pub(super) async fn run(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Attempt> {
    assert!(write.stock.fits_a_packet(), "an offer and a textbook's statement are sent singly");
    let span = write.purchase.trace.span("transaction");
    let rows = span.span("rows");
    let written = within(TRANSACTION_MAX, write_rows(connection, write, outbox)).await;
    drop(rows);
    match written {
        Ok(None) => {}
        Ok(Some(answer)) => {
            roll_back(connection).await?;
            return Ok(Attempt::Done(answer));
        }
        Err(error) => {
            roll_back_after(connection, &error).await;
            return Err(error);
        }
    }
    failpoint!("rows-written");
    let last = take_and_commit(write);
    let committed = {
        let _span = span.span("COMMIT");
        within(ANSWER_MAX, last.send(connection)).await
    };
    match committed {
        Ok(_) => {
            failpoint!("committed");
            let token = write.fence.map(|fence| fence.token);
            Ok(Attempt::Done(Ok(Outcome::Sold(write.purchase.order(WRITTEN_AS, token)))))
        }
        Err(error) if is_not_one_row(&error) => {
            let refused = answered(stock::why_refused(connection, write.purchase, write.stock));
            let refused = refused.await;
            roll_back(connection).await?;
            Ok(Attempt::Done(refused?))
        }
        Err(error) if Fault::of(&error) == Fault::Transient => {
            roll_back_after(connection, &error).await;
            Err(error)
        }
        Err(error) => {
            tracing::warn!(%error, order = %write.purchase.order_id, "COMMIT not answered");
            Ok(Attempt::CommitLost)
        }
    }
}

/// BEGIN and all rows but the stock's. `Some` ends the purchase, and the transaction must be rolled
/// back.
async fn write_rows(
    connection: &mut MySqlConnection,
    write: &OrderWrite<'_>,
    outbox: Outbox,
) -> sqlx::Result<Option<Answer>> {
    let purchase = write.purchase;
    let fence = write.fence.filter(|_| is_guarded(purchase));
    let mut packet = Packet::default();
    packet.push("BEGIN");
    if let Some(fence) = fence {
        packet.push_for_one_row(raise_statement(purchase, fence));
    } else if takes_stock_first(write) {
        packet.push_for_one_row(take_statement(write));
    }
    // The number of the write, as the statement before has left it.
    let sequence = fence.map(|_| "LAST_INSERT_ID()".to_owned());
    push_rows(&mut packet, write, sequence, outbox)?;
    let rows = match packet.send(connection).await {
        Err(error) if is_not_one_row(&error) => {
            let Some(fence) = fence else {
                return stock::why_refused(connection, purchase, write.stock).await.map(Some);
            };
            // The item has no row of this counter yet, or a later holder has written.
            let sequence = match raise_fence(connection, purchase, fence).await? {
                Raised::Accepted { sequence } => Some(sequence.to_string()),
                Raised::Late { accepted } => return Ok(Some(Err(Conflict::Fenced { accepted }))),
            };
            let mut packet = Packet::default();
            push_rows(&mut packet, write, sequence, outbox)?;
            packet.send(connection).await?
        }
        sent => sent?,
    };
    if !matches!(write.stock, StockWrite::GuardedAfterLock) {
        return Ok(None);
    }
    // The lock has kept the row as it is now.
    purchase.look.is_now();
    let last = rows.into_iter().next_back();
    Ok(stock::enough_of(last, purchase)?.err().map(Ok))
}

/// The order, the buyer's limit, the movement, the event; for a gate that locks the stock row before
/// it decides, the reading with the lock.
fn push_rows(
    packet: &mut Packet,
    write: &OrderWrite<'_>,
    sequence: Option<String>,
    outbox: Outbox,
) -> sqlx::Result<()> {
    let OrderWrite { purchase, fence, stock, .. } = *write;
    let (item, buyer) = (purchase.item.id.get(), purchase.buyer.get());
    let (order, units) = (purchase.order_id, purchase.quantity.units());
    let created_at = Time(purchase.created_at);
    packet.push(format_args!(
        "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, fence, \
         fence_backend, fence_sequence, request_key, limit_group_id, created_at, expires_at) \
         VALUES ('{order}', {item}, {buyer}, {units}, {amount}, '{status}', {strategy}, {token}, \
         {backend}, {sequence}, {key}, {group}, {created_at}, {expires_at})",
        amount = purchase.amount.cents(),
        status = WRITTEN_AS.as_str(),
        strategy = Text(purchase.strategy),
        token = OrNull(fence.map(|fence| fence.token)),
        backend = OrNull(fence.map(|fence| Text(fence.backend))),
        sequence = OrNull(sequence),
        key = Text(purchase.key.as_str()),
        group = OrNull(purchase.counted_group().map(|group| group.id.get())),
        expires_at = Time(purchase.expires_at),
    ));
    if is_guarded(purchase) {
        packet.push(format_args!(
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) \
             VALUES ({item}, {buyer}, {units}, {limit}) \
             ON DUPLICATE KEY UPDATE bought = bought + {units}, allowed = {limit}",
            limit = purchase.item.per_buyer_limit,
        ));
    }
    if let Some(group) = purchase.counted_group() {
        packet.push(format_args!(
            "INSERT INTO group_limits (group_id, user_id, bought, allowed) \
             VALUES ({group}, {buyer}, {units}, {limit}) \
             ON DUPLICATE KEY UPDATE bought = bought + {units}, allowed = {limit}",
            group = group.id.get(),
            limit = group.per_buyer_limit,
        ));
    }
    packet.push(format_args!(
        "INSERT INTO stock_movements (item_id, order_id, reason, delta, created_at) \
         VALUES ({item}, '{order}', '{sold}', -{units}, {created_at})",
        sold = MovementReason::Sold.as_str(),
    ));
    if let Some(NewEvent { id, kind, payload }) = outbox.event_of(&[purchase], WRITTEN_AS)? {
        packet.push(format_args!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, created_at) VALUES \
             ('{id}', 'orders', 'ledger', '{kind}', {payload}, UTC_TIMESTAMP(6))",
            payload = Text(&payload),
        ));
    }
    if matches!(stock, StockWrite::GuardedAfterLock) {
        packet.push(format_args!(
            "SELECT available, home_epoch FROM stock WHERE item_id = {item} FOR UPDATE"
        ));
    }
    Ok(())
}

/// The statement of [`raise_fence`] that raises a fence which is there and not later.
fn raise_statement(purchase: &Purchase, fence: Fence) -> String {
    format!(
        "UPDATE fences SET fence = {token}, accepted_writes = LAST_INSERT_ID(accepted_writes + 1) \
         WHERE item_id = {item} AND backend = {backend} AND fence <= {token}",
        token = fence.token,
        item = purchase.item.id.get(),
        backend = Text(fence.backend),
    )
}

/// COMMIT, and before it the stock's statement unless the units are taken already.
fn take_and_commit(write: &OrderWrite<'_>) -> Packet {
    let mut packet = Packet::default();
    if !takes_stock_first(write) {
        packet.push_for_one_row(take_statement(write));
    }
    packet.push("COMMIT");
    packet
}

/// Whether the stock's statement comes before the other rows.
pub(super) fn takes_stock_first(write: &OrderWrite<'_>) -> bool {
    write.fence.is_none() && write.stock.is_compared()
}

fn take_statement(write: &OrderWrite<'_>) -> String {
    let (item, units) = (write.purchase.item.id.get(), write.purchase.quantity.signed());
    let epoch = write.purchase.item.home.epoch;
    assert!(units > 0, "a purchase takes at least one unit");
    let compared = match write.stock {
        StockWrite::GuardedByVersion(version) => format!(" AND version = {version}"),
        StockWrite::GuardedByTimestamp(changed_at) => {
            format!(" AND changed_at = {}", Time(changed_at))
        }
        _ => String::new(),
    };
    format!(
        "UPDATE stock SET available = available - {units}, version = version + 1 \
         WHERE item_id = {item} AND available >= {units} AND home_epoch = {epoch}{compared}"
    )
}

async fn roll_back(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    answered(connection.execute(sqlx::raw_sql("ROLLBACK"))).await?;
    Ok(())
}

/// Rolls back after `error`, unless the error is a missing answer: then the rollback would get none
/// either, and the transaction ends with its connection.
async fn roll_back_after(connection: &mut MySqlConnection, error: &sqlx::Error) {
    if !is_silence(error) {
        // If the rollback fails, the connection is dead, and the server rolls back by itself.
        let _ = roll_back(connection).await;
    }
}
