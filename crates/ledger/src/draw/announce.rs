//! Announcing a draw.

use sqlx::MySqlConnection;

use super::micros;
use crate::rows::item::items;
use crate::sql::statement::{Binds, Write};
use draw_proof::{Beacon, PublicKey, Rules};
use shop_domain::{DrawBeacon, ItemId, NewDraw};

/// Publishes what the draw of a new item promises. `units` are for sale.
///
/// # Errors
/// The database's; also for rules that no checker would take, such as a round that is not after the close.
pub(crate) async fn announce(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
    draw: &NewDraw,
) -> sqlx::Result<()> {
    let unusable = || sqlx::Error::Protocol("a draw that cannot be announced".to_owned());
    let rules = rules(item, units, draw).ok_or_else(unusable)?;
    let NewDraw { closes_at, beacon, round, shop_key, party_max } = draw;
    sqlx::query(
        "INSERT INTO draws (item_id, rules, shop_key, beacon, round, closes_at, party_max) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .binds((item.get(), rules, shop_key.as_str(), beacon.as_str(), *round))
    .binds((items::datetime(*closes_at), *party_max))
    .run(transaction)
    .await
}

fn rules(item: ItemId, units: i64, draw: &NewDraw) -> Option<String> {
    let rules = Rules {
        shop: PublicKey::parse(&draw.shop_key)?,
        item: u64::try_from(item.get()).ok()?,
        units: u64::try_from(units).ok()?,
        party_max: draw.party_max,
        closes: micros(draw.closes_at),
        beacon: beacon_of(draw.beacon),
        round: draw.round,
    };
    rules.text()
}

/// The beacon of a row.
#[must_use]
pub fn beacon_of(named: DrawBeacon) -> Beacon {
    match named {
        DrawBeacon::Drand => Beacon::Drand,
        DrawBeacon::Local => Beacon::Local,
    }
}
