//! The draw of an item, as far as the core needs it; the extension `draw` has the rest. A program without that extension
//! still deletes entries with their person, and still suspends the waiting list in a pause.

use draw_proof::{Beacon, Micros};
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::items::datetime;
use crate::sql::statement::{Binds, Read, Write};
use shop_domain::{DrawBeacon, ItemId, NewDraw, UserId};

/// Publishes what the draw of a new item promises. `units` are for sale.
///
/// # Errors
/// The database's; also for rules that no checker would take, such as a round that is not after the close.
pub(crate) async fn insert(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
    draw: &NewDraw,
) -> sqlx::Result<()> {
    let unusable = || sqlx::Error::Protocol("a draw that cannot be announced".to_owned());
    let rules = (draw.rules)(draw, item, units).ok_or_else(unusable)?;
    sqlx::query(
        "INSERT INTO draws (item_id, rules, shop_key, beacon, round, closes_at, party_max) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .binds((item.get(), rules, draw.shop_key.as_str(), draw.beacon.as_str(), draw.round))
    .binds((datetime(draw.closes_at), draw.party_max))
    .run(transaction)
    .await
}

/// Reads the time of the round that the draw of an item depends on.
///
/// # Errors
/// The database's; also for an item that is not drawn.
pub(crate) async fn round_at(from: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Micros> {
    let read = sqlx::query_as("SELECT beacon, round FROM draws WHERE item_id = ?");
    let found: (DrawBeacon, u64) = read.bind(item.get()).one(from).await?;
    Ok(beacon_of(found.0).time_of(found.1))
}

/// Notes that a pause of a sale that is drawn begins or ends now. From then on no offer ends, until each one has its
/// whole time again. The caller has locked the stock row.
///
/// # Errors
/// The database's; the caller rolls back.
pub(crate) async fn note_pause(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<()> {
    let note = "UPDATE draws SET paused_at = UTC_TIMESTAMP(6) WHERE item_id = ?";
    sqlx::query(note).bind(item.get()).run(transaction).await
}

/// Returns whether entries in the draw of an item may change; `None` when the item is not drawn. The answer stays true
/// while the caller has the lock of the stock row, shared or not.
///
/// # Errors
/// The database's.
pub async fn is_open(
    transaction: &mut MySqlConnection,
    item: ItemId,
) -> sqlx::Result<Option<bool>> {
    let is_open: Option<i64> = sqlx::query_scalar(
        "SELECT closed_at IS NULL AND closes_at > UTC_TIMESTAMP(6) FROM draws WHERE item_id = ?",
    )
    .bind(item.get())
    .first(transaction)
    .await?;
    Ok(is_open.map(|is_open| is_open != 0))
}

/// Takes the entry of a buyer back. The caller has found that the draw [`is_open`].
///
/// # Errors
/// The database's; the caller rolls back.
pub async fn delete_entry(
    transaction: &mut MySqlConnection,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<()> {
    let delete = "DELETE FROM draw_entries WHERE item_id = ? AND user_id = ?";
    sqlx::query(delete).binds((item.get(), buyer.get())).run(transaction).await
}

/// The items in whose open draws a person has an entry. Few items are drawn at once.
pub(crate) async fn entered_by(
    from: impl MySqlExecutor<'_>,
    user: UserId,
) -> sqlx::Result<Vec<ItemId>> {
    let entries = "SELECT draws.item_id FROM draws STRAIGHT_JOIN draw_entries \
         ON draw_entries.item_id = draws.item_id AND draw_entries.user_id = ? \
         WHERE draws.closed_at IS NULL";
    sqlx::query_scalar(entries).bind(user.get()).all(from).await
}

/// The beacon of a row.
#[must_use]
pub fn beacon_of(named: DrawBeacon) -> Beacon {
    match named {
        DrawBeacon::Drand => Beacon::Drand,
        DrawBeacon::Local => Beacon::Local,
    }
}

/// A time as signed texts have it.
#[must_use]
pub fn micros(at: OffsetDateTime) -> Micros {
    u64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or_default()
}
