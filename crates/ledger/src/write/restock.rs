//! An item's stock outside of its orders: the row that is created with the item, and restocks in
//! either direction. Both run in the caller's transaction.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use crate::rows::tables::TABLES;
use crate::sql::statement::{Binds, Write};
use crate::work::item_permit::ItemPermit;
use shop_domain::{Item, ItemId, OrderId, UserId};

/// Units that an operator adds to a sale or takes out of it.
#[derive(Clone, Copy, Debug)]
pub struct Restock<'a> {
    /// Of the item whose stock row is changed.
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

/// Changes `total` and `available` together, and writes the restock down. Answers the version of
/// the stock that this made; `None` when fewer units are left than are to be taken out, some of
/// them are just being bought by their rows, or the total would be above [`Item::STOCK_MAX`]: then nothing was written.
pub async fn restock(
    transaction: &mut MySqlConnection,
    restock: &Restock<'_>,
) -> sqlx::Result<Option<u64>> {
    let Restock { permit, units, operator, now } = *restock;
    let item = permit.item();
    if !(-Item::STOCK_MAX..=Item::STOCK_MAX).contains(&units) {
        return Ok(None);
    }
    if units < 0 {
        for table in TABLES {
            if !table.give_up(transaction, item, units.saturating_neg()).await? {
                return Ok(None);
            }
        }
    }
    let done = sqlx::query(
        "UPDATE stock SET total = total + ?, available = available + ?, \
         version = LAST_INSERT_ID(version + 1) \
         WHERE item_id = ? AND available + ? >= 0 AND total + ? BETWEEN 0 AND ?",
    )
    .binds((units, units, item.get(), units, units, Item::STOCK_MAX))
    .execute(&mut *transaction)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(None);
    }
    let version = done.last_insert_id();
    sqlx::query(
        "INSERT INTO restocks (id, item_id, delta, user_id, created_at) VALUES (?, ?, ?, ?, ?)",
    )
    .binds((OrderId::generate().to_string(), item.get(), units, operator.get(), now))
    .execute(&mut *transaction)
    .await?;
    Ok(Some(version))
}
