//! An item's stock outside of its orders: the row that is created with the item, and restocks in
//! either direction. Both run in the caller's transaction.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use crate::rows::tables::TABLES;
use crate::waiting_list::LineChange;
use crate::work::item_permit::ItemPermit;
use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::{Item, ItemId, OrderId, UserId};

/// Units that an operator adds to a sale or takes out of it.
#[derive(Clone, Copy, Debug)]
pub struct Restock<'a> {
    /// The permit of the item whose stock row is changed.
    pub permit: &'a ItemPermit,
    /// Units to add; below zero, units to take out.
    pub units: i64,
    pub operator: UserId,
    /// The time of the restock.
    pub now: OffsetDateTime,
}

/// Creates the stock row of a new item with `units` left.
pub async fn create_stock(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO stock (item_id, total, available) VALUES (?, ?, ?)")
        .binds((item.get(), units, units))
        .run(transaction)
        .await
}

/// Writes a restock down. Units that are taken out leave the stock at once; new ones come into it when the waiting list is
/// tended next, in the same transaction at first. `None` when fewer units are left than are to be taken out, some of them
/// are just being bought by their rows, or the total would be above [`Item::STOCK_MAX`]: then nothing was written.
pub async fn restock(
    transaction: &mut MySqlConnection,
    restock: &Restock<'_>,
) -> sqlx::Result<Option<LineChange>> {
    let Restock { permit, units, operator, now } = *restock;
    let item = permit.item();
    let mut change = LineChange::default();
    if units < 0 {
        match take_out(transaction, item, units).await? {
            Some(version) => change = change.after_return(units, version),
            None => return Ok(None),
        }
    } else if !has_room(transaction, item, units).await? {
        return Ok(None);
    }
    sqlx::query(
        "INSERT INTO restocks (id, item_id, delta, waiting, user_id, created_at) \
         VALUES (?, ?, ?, ?, ?, ?)",
    )
    .binds((OrderId::generate().to_string(), item.get(), units, units.max(0), operator.get(), now))
    .run(transaction)
    .await?;
    Ok(Some(change))
}

/// Takes units out of the stock, `units` below zero, and returns the version of the stock that this made; `None` when too
/// few are left.
async fn take_out(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<Option<u64>> {
    for table in TABLES {
        if !table.give_up(transaction, item, units.saturating_neg()).await? {
            return Ok(None);
        }
    }
    sqlx::query(
        "UPDATE stock SET total = total + ?, available = available + ?, \
         version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND available + ? >= 0 AND total + ? >= 0",
    )
    .binds((units, units, item.get(), units, units))
    .noted(transaction)
    .await
}

/// Whether the total may be higher by `units`, with the units of earlier restocks that are not in it yet.
async fn has_room(
    transaction: &mut MySqlConnection,
    item: ItemId,
    units: i64,
) -> sqlx::Result<bool> {
    let statement = "SELECT CAST(total + (SELECT COALESCE(SUM(waiting), 0) FROM restocks \
         WHERE item_id = ?) AS SIGNED) FROM stock WHERE item_id = ?";
    let total: Option<i64> =
        sqlx::query_scalar(statement).binds((item.get(), item.get())).first(transaction).await?;
    Ok(total.is_some_and(|total| total.saturating_add(units) <= Item::STOCK_MAX))
}
