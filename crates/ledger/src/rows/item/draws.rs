//! The draw of an item, as far as the core needs it; the extension `draw` has the rest. A program without that extension
//! still suspends the waiting list in a pause.

use draw_proof::{Beacon, Micros};
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;

use super::items::datetime;
use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::{DrawBeacon, ItemId, NewDraw};

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

/// The beacon of a row.
pub fn beacon_of(named: DrawBeacon) -> Beacon {
    match named {
        DrawBeacon::Drand => Beacon::Drand,
        DrawBeacon::Local => Beacon::Local,
    }
}

/// A time as signed texts have it.
pub fn micros(at: OffsetDateTime) -> Micros {
    u64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or_default()
}
