//! The statements of the waiting line. They run under the lock of the item's stock row.

use sqlx::{MySqlConnection, QueryBuilder};
use time::OffsetDateTime;

use crate::rows::outbox::{OfferChange, Outbox};
use crate::rows::waiting_list;
use mysql_connection::statement::{Binds, Write};
use shop_domain::{ItemId, OrderId, Purchase, UserId, WaitingStatus};

/// Units of a restock that one transaction adds while more buyers than that wait, at most twice as many at the end: the
/// stock row, for which all others of the item wait, is held for a few hundredths of a second. The load test's audit
/// knows the number too (`crates/ledger-audit/src/rules/in_time/sold_out.rs`).
const PART_MAX: i64 = 1_000;

/// A place that is about to change.
pub(super) struct Row {
    pub place: i64,
    pub user_id: UserId,
}

from_row!(Row { place, user_id });

/// Buys the unit that is offered to a buyer; `false` when there is no open offer, and the transaction must be
/// rolled back. The stock row first, as everywhere.
pub(crate) async fn accept(
    transaction: &mut MySqlConnection,
    purchase: &Purchase,
    outbox: Outbox,
) -> sqlx::Result<bool> {
    let item = purchase.item.id.get();
    let buyer = purchase.buyer.get();
    let taken = sqlx::query(
        "UPDATE stock SET offered = offered - 1, version = version + 1 \
         WHERE item_id = ? AND offered >= 1",
    )
    .bind(item)
    .execute(&mut *transaction)
    .await?;
    if taken.rows_affected() == 0 {
        return Ok(false);
    }
    // The lock of the stock row keeps the place as it is read.
    let place: Option<i64> = sqlx::query_scalar(
        "SELECT place FROM waiting_list WHERE item_id = ? AND user_id = ? AND live = 1 \
         AND status = 'offered' AND (offer_expires_at > UTC_TIMESTAMP(6) \
           OR EXISTS (SELECT 1 FROM draws WHERE draws.item_id = ? AND paused_at IS NOT NULL))",
    )
    .binds((item, buyer, item))
    .fetch_optional(&mut *transaction)
    .await?;
    let Some(place) = place else { return Ok(false) };
    let accepted = sqlx::query(
        "UPDATE waiting_list SET status = 'accepted', live = NULL, closed_at = UTC_TIMESTAMP(6), \
         order_id = ? WHERE item_id = ? AND place = ? AND status = 'offered'",
    )
    .binds((purchase.order_id.to_string(), item, place))
    .execute(&mut *transaction)
    .await?;
    let status = WaitingStatus::Accepted.as_str();
    let change = OfferChange { place, item_id: item, user_id: buyer, status };
    outbox.offers(&mut *transaction, vec![change]).await?;
    Ok(accepted.rows_affected() == 1)
}

/// The first buyers of the line behind a place whom `units` are enough for, at most `count`: a party whole, or not at
/// all.
pub(super) async fn first_in_line(
    transaction: &mut MySqlConnection,
    item: ItemId,
    after: i64,
    units: i64,
    count: usize,
) -> sqlx::Result<Vec<Row>> {
    let mut rows: Vec<(i64, UserId, Option<String>, u8)> = sqlx::query_as(
        "SELECT place, user_id, party, party_size FROM waiting_list \
         WHERE item_id = ? AND status = 'waiting' AND place > ? AND party_size <= ? \
         ORDER BY place LIMIT ?",
    )
    .binds((item.get(), after, units, count as u64))
    .fetch_all(transaction)
    .await?;
    // The limit may have cut the last party. It never cuts the first one, whose size is at most `count`.
    if rows.len() == count
        && let Some((_, _, Some(last), size)) = rows.last()
    {
        let members = rows.iter().rev().take_while(|row| row.2.as_ref() == Some(last)).count();
        if members < usize::from(*size) {
            rows.truncate(rows.len() - members);
        }
    }
    Ok(rows.into_iter().map(|(place, user_id, ..)| Row { place, user_id }).collect())
}

/// Takes a place that waits out of its party, in which the friends go on waiting.
pub(super) async fn leave_party(
    transaction: &mut MySqlConnection,
    item: ItemId,
    place: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE waiting_list AS own JOIN draw_entries AS friends \
           ON friends.item_id = own.item_id AND friends.party = own.party \
         JOIN waiting_list AS line ON line.item_id = friends.item_id \
           AND line.user_id = friends.user_id AND line.live = 1 AND line.party = own.party \
         SET line.party_size = line.party_size - 1 WHERE own.item_id = ? AND own.place = ?",
    )
    .binds((item.get(), place))
    .run(transaction)
    .await
}

/// Makes the places offers that end after the item's time.
pub(super) async fn offer(
    transaction: &mut MySqlConnection,
    item: ItemId,
    rows: &[Row],
) -> sqlx::Result<()> {
    let mut update = QueryBuilder::new(
        "UPDATE waiting_list SET status = 'offered', offered_at = UTC_TIMESTAMP(6), \
         offer_expires_at = UTC_TIMESTAMP(6) + INTERVAL \
         (SELECT offer_seconds FROM items WHERE id = ",
    );
    update.push_bind(item.get()).push(") SECOND WHERE status = 'waiting'");
    all_of(update, transaction, item, rows).await
}

/// Closes places that are live.
pub(super) async fn close(
    transaction: &mut MySqlConnection,
    item: ItemId,
    rows: &[Row],
    status: WaitingStatus,
) -> sqlx::Result<()> {
    let mut update = QueryBuilder::new("UPDATE waiting_list SET status = ");
    update.push_bind(status.as_str());
    update.push(", live = NULL, closed_at = UTC_TIMESTAMP(6) WHERE live = 1");
    all_of(update, transaction, item, rows).await
}

/// Runs an update of all `rows` of an item; an error unless each was changed.
async fn all_of(
    mut update: QueryBuilder<'_, sqlx::MySql>,
    transaction: &mut MySqlConnection,
    item: ItemId,
    rows: &[Row],
) -> sqlx::Result<()> {
    update.push(" AND item_id = ").push_bind(item.get()).push(" AND place IN ");
    update.push_tuples(rows, |mut tuple, row| {
        tuple.push_bind(row.place);
    });
    let done = update.build().persistent(false).execute(transaction).await?;
    let is_whole = done.rows_affected() == rows.len() as u64;
    is_whole.then_some(()).ok_or(sqlx::Error::RowNotFound)
}

/// Takes units for offers, and answers the new version of the stock.
pub(super) async fn move_to_offered(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<u64> {
    let statement = "UPDATE stock SET available = available - ?, offered = offered + ?, \
         version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND available >= ?";
    move_units(transaction, statement, item, units).await
}

/// Gives units of closed offers back, and answers the new version of the stock.
pub(super) async fn move_to_available(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<u64> {
    let statement = "UPDATE stock SET available = available + ?, offered = offered - ?, \
         version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND offered >= ?";
    move_units(transaction, statement, item, units).await
}

/// Runs one of the two statements above, and returns the new version of the stock.
async fn move_units(
    transaction: &mut MySqlConnection,
    statement: &str,
    item: ItemId,
    units: i64,
) -> sqlx::Result<u64> {
    let moved = sqlx::query(statement).binds((units, units, item.get(), units));
    moved.noted(transaction).await?.ok_or(sqlx::Error::RowNotFound)
}

/// Adds the units of the oldest restock that are not in the stock yet, or the next part of them. The caller has locked
/// the stock row, and offers the added units in the same transaction: so no purchase passes the line. Returns the
/// units, and the version of the stock that this made.
pub(super) async fn add_restocked(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Option<(i64, u64)>> {
    let oldest: Option<(OrderId, i64)> = sqlx::query_as(
        "SELECT id, waiting FROM restocks WHERE item_id = ? AND waiting > 0 ORDER BY id LIMIT 1",
    )
    .bind(item.get())
    .fetch_optional(&mut *transaction)
    .await?;
    let Some((id, waiting)) = oldest else { return Ok(None) };
    let part_max = PART_MAX.unsigned_abs();
    let buyers = waiting_list::length_up_to(&mut *transaction, item, part_max + 1).await?;
    // Never a small rest, which would be too few for friends who are first in the line.
    let is_in_parts = buyers > part_max && waiting >= 2 * PART_MAX;
    let units = if is_in_parts { PART_MAX } else { waiting };
    let taken = sqlx::query(
        "UPDATE restocks SET waiting = waiting - ? WHERE id = ? AND item_id = ? AND waiting >= ?",
    )
    .binds((units, id.to_string(), item.get(), units))
    .changed(&mut *transaction)
    .await?;
    let added = sqlx::query(
        "UPDATE stock SET total = total + ?, available = available + ?, \
         version = LAST_INSERT_ID(version + 1) WHERE item_id = ?",
    )
    .binds((units, units, item.get()))
    .noted(transaction)
    .await?;
    match added {
        Some(version) if taken == 1 => Ok(Some((units, version))),
        _ => Err(sqlx::Error::RowNotFound),
    }
}

/// Gives open offers their whole time from the end of the pause on, at most `count`. Returns whether more are left. A step
/// that is taken twice has no further effect, so any number of offers gets its time in short transactions.
pub(super) async fn resume_offers(
    transaction: &mut MySqlConnection,
    item: ItemId,
    count: u32,
) -> sqlx::Result<bool> {
    let until: OffsetDateTime = sqlx::query_scalar(
        "SELECT paused_at + INTERVAL offer_seconds SECOND FROM draws \
         JOIN items ON items.id = draws.item_id WHERE draws.item_id = ? AND paused_at IS NOT NULL",
    )
    .bind(item.get())
    .fetch_one(&mut *transaction)
    .await?;
    let moved = sqlx::query(
        "UPDATE waiting_list SET offer_expires_at = ? WHERE item_id = ? AND status = 'offered' \
         AND offer_expires_at < ? ORDER BY offer_expires_at LIMIT ?",
    )
    .binds((until, item.get(), until, count))
    .execute(&mut *transaction)
    .await?;
    if moved.rows_affected() == u64::from(count) {
        return Ok(true);
    }
    let over = "UPDATE draws SET paused_at = NULL WHERE item_id = ?";
    sqlx::query(over).bind(item.get()).execute(transaction).await?;
    Ok(false)
}

/// Inserts a place at the end of the line.
pub(super) async fn insert(
    transaction: &mut MySqlConnection,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at) \
         VALUES (?, ?, 'waiting', 1, UTC_TIMESTAMP(6))",
    )
    .binds((item.get(), buyer.get()))
    .run(transaction)
    .await
}

/// Ends at most `count` places that wait, from the back of the line, and answers their number.
pub(super) async fn end_waiting(
    transaction: &mut MySqlConnection,
    item: ItemId,
    count: u32,
) -> sqlx::Result<u64> {
    sqlx::query(
        "UPDATE waiting_list SET status = 'ended', live = NULL, closed_at = UTC_TIMESTAMP(6) \
         WHERE item_id = ? AND status = 'waiting' ORDER BY place DESC LIMIT ?",
    )
    .binds((item.get(), count))
    .changed(transaction)
    .await
}

/// Of the open offers: those that were not accepted in time.
pub(super) const LAPSED: &str = "AND offer_expires_at <= UTC_TIMESTAMP(6)";

/// The open offers of an item, at most `count`: all of them, or [`LAPSED`].
pub(super) async fn open_offers(
    transaction: &mut MySqlConnection,
    item: ItemId,
    which: &str,
    count: usize,
) -> sqlx::Result<Vec<Row>> {
    let statement = format!(
        "SELECT place, user_id FROM waiting_list WHERE item_id = ? AND status = 'offered' {which} \
         ORDER BY place LIMIT ?"
    );
    sqlx::query_as(&statement).binds((item.get(), count as u64)).fetch_all(transaction).await
}
