//! Reads the units that buyers have of an item; only the arbiter writes them.

use sqlx::MySqlExecutor;

use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read};
use mysql_connection::within;
use shop_domain::{ItemId, LimitGroupId, UserId};

/// Reads the units of the buyer's orders that hold stock.
pub async fn bought(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<i64> {
    let select = "SELECT bought FROM buyer_limits WHERE item_id = ? AND user_id = ?";
    read_bought(executor, select, (item.get(), buyer.get())).await
}

/// Reads the units of the buyer's orders that hold stock, of all items of a group.
pub async fn bought_of_group(
    executor: impl MySqlExecutor<'_>,
    group: LimitGroupId,
    buyer: UserId,
) -> sqlx::Result<i64> {
    let select = "SELECT bought FROM group_limits WHERE group_id = ? AND user_id = ?";
    read_bought(executor, select, (group.get(), buyer.get())).await
}

async fn read_bought(
    executor: impl MySqlExecutor<'_>,
    select: &str,
    ids: (i64, i64),
) -> sqlx::Result<i64> {
    let bought: Option<i32> = sqlx::query_scalar(select).binds(ids).first(executor).await?;
    Ok(bought.map_or(0, i64::from))
}

/// An item's stock and the buyers who have units of it, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Units left.
    pub available: i64,
    /// The version of the stock.
    pub version: u64,
    /// The buyers with units, and the number of their units.
    pub buyers: Vec<(UserId, i64)>,
}

/// Reads an item's stock and its buyers in one statement, so that both are of one moment; `None`
/// when there is no such item. The units of buyers are summed from the orders: those of lab items
/// without an arbiter are counted nowhere else.
pub async fn holdings(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Option<Holdings>> {
    let rows = sqlx::query_as(
        "SELECT stock.available, stock.version, held.user_id, held.units FROM stock LEFT JOIN \
         (SELECT item_id, user_id, CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
          WHERE item_id = ? AND status IN ('pending', 'paid') GROUP BY item_id, user_id) AS held \
         ON held.item_id = stock.item_id WHERE stock.item_id = ?",
    )
    .binds((item.get(), item.get()))
    .fetch_all(executor);
    let rows: Vec<(i64, u64, Option<UserId>, Option<i64>)> = within(LONG_READ_MAX, rows).await?;
    let Some(&(available, version, ..)) = rows.first() else { return Ok(None) };
    let buyers = rows.into_iter().filter_map(|(_, _, buyer, units)| Some((buyer?, units?)));
    Ok(Some(Holdings { available, version, buyers: buyers.collect() }))
}
