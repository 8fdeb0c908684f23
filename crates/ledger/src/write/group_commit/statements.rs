//! The statements of batches. They read the counts and the stock before a batch writes, the items whose rows others
//! hold, and the orders that a lost COMMIT has written; and one takes the stock.

use std::collections::{BTreeSet, HashMap};

use sqlx::{FromRow, MySqlConnection, QueryBuilder};

use super::batch_orders::powers_of_two;
use crate::rows::order::orders;
use crate::write::is_guarded;
use crate::write::new_order::stock_update;
use mysql_connection::statement::{Read, in_list};
use mysql_connection::{Database, answered, begin_on};
use shop_domain::{ItemId, LimitGroupId, Order, OrderId, Purchase, UserId};

/// What the ledger has counted of a buyer and an item.
#[derive(Clone, Copy, Default)]
pub(super) struct BuyerCount {
    pub(super) bought: i64,
    /// Holds that expired unpaid.
    pub(super) expired: i64,
}

/// What is counted of the batch's buyers already, of items that count them.
pub(super) async fn bought_so_far(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<(ItemId, UserId), BuyerCount>> {
    let mut bought = HashMap::new();
    let guarded: Vec<&Purchase> = purchases.iter().filter(|one| is_guarded(one)).collect();
    for chunk in powers_of_two(&guarded) {
        let mut select = QueryBuilder::new(
            "SELECT item_id, user_id, bought, expired FROM buyer_limits WHERE (item_id, user_id) IN",
        );
        select.push_tuples(chunk, |mut row, purchase| {
            row.push_bind(purchase.item.id.get()).push_bind(purchase.buyer.get());
        });
        let rows: Vec<(ItemId, UserId, i32, i32)> =
            select.build_query_as().fetch_all(&mut *connection).await?;
        bought.extend(rows.into_iter().map(|(item, buyer, units, expired)| {
            ((item, buyer), BuyerCount { bought: units.into(), expired: expired.into() })
        }));
    }
    Ok(bought)
}

/// Units that the batch's buyers have already, of all items of each group.
pub(super) async fn bought_in_groups(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> sqlx::Result<HashMap<(LimitGroupId, UserId), i64>> {
    let mut bought = HashMap::new();
    let key = |one: &Purchase| one.counted_group().map(|group| (group.id, one.buyer));
    let counted: Vec<_> = purchases.iter().filter_map(key).collect();
    for chunk in powers_of_two(&counted) {
        let mut select = QueryBuilder::new(
            "SELECT group_id, user_id, bought FROM group_limits WHERE (group_id, user_id) IN",
        );
        select.push_tuples(chunk, |mut row, (group, buyer)| {
            row.push_bind(group.get()).push_bind(buyer.get());
        });
        let rows: Vec<(LimitGroupId, UserId, i32)> =
            select.build_query_as().fetch_all(&mut *connection).await?;
        bought.extend(rows.into_iter().map(|(group, buyer, units)| ((group, buyer), units.into())));
    }
    Ok(bought)
}

/// Units left of each item that exists.
pub(super) async fn available(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> sqlx::Result<HashMap<ItemId, i64>> {
    Ok(select_stock(connection, items, "").await?.into_iter().collect())
}

/// Finds the items whose stock rows other transactions have locked. The connection has no transaction,
/// so the locks that it gets go at once. Engines that ignore SKIP LOCKED find none.
pub(super) async fn locked_by_others(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> sqlx::Result<BTreeSet<ItemId>> {
    let mut locked: BTreeSet<ItemId> = items.iter().copied().collect();
    for (item, _) in select_stock(connection, items, "FOR UPDATE SKIP LOCKED").await? {
        locked.remove(&item);
    }
    Ok(locked)
}

/// The items that exist, with the units left.
async fn select_stock(
    connection: &mut MySqlConnection,
    items: &[ItemId],
    locking: &str,
) -> sqlx::Result<Vec<(ItemId, i64)>> {
    let Some((places, padded)) = in_list(items) else { return Ok(Vec::new()) };
    // A scan of a small table would lock rows of others.
    let statement = format!(
        "SELECT item_id, available FROM stock FORCE INDEX (PRIMARY) \
         WHERE item_id IN ({places}) {locking}"
    );
    let select = sqlx::query_as(&statement);
    padded.fold(select, |select, item| select.bind(item.get())).all(connection).await
}

/// Finds the orders of a batch whose COMMIT was not answered, waiting for a transaction that still
/// holds their rows: with one statement for all.
pub(super) async fn find_written(
    pool: &Database,
    purchases: &[&Purchase],
) -> sqlx::Result<HashMap<OrderId, Order>> {
    let Some((places, padded)) = in_list(purchases) else { return Ok(HashMap::new()) };
    let padded: Vec<&Purchase> = padded.collect();
    let question = |columns: &str, locking: &str| {
        format!(
            "SELECT {columns} FROM orders FORCE INDEX (PRIMARY) WHERE id IN ({places}) \
             AND item_id IN ({places}) {locking}"
        )
    };
    // The lock by a statement of its own: see `orders::lock`.
    let lock = question("id, status", "FOR UPDATE");
    let read = question(orders::COLUMNS, "");
    let bound = |statement| {
        let query = padded
            .iter()
            .fold(sqlx::query(statement), |query, one| query.bind(one.order_id.to_string()));
        // Where items are in shards, this says which ones to ask.
        padded.iter().fold(query, |query, one| query.bind(one.item.id.get()))
    };
    let look = async {
        let mut connection = pool.after_lost_commit().await?;
        let mut transaction = begin_on(&mut connection).await?;
        bound(&lock).fetch_all(&mut *transaction).await?;
        let rows = bound(&read).fetch_all(&mut *transaction).await?;
        // Nothing was written, and the locks were all that was wanted.
        let _ = transaction.rollback().await;
        Ok(rows)
    };
    let rows = answered(look).await?;
    rows.iter().map(|row| Order::from_row(row).map(|order| (order.id, order))).collect()
}

/// Takes units of several items, in the order of their ids, and answers how many had enough.
pub(super) async fn take(
    connection: &mut MySqlConnection,
    taken: &[(ItemId, i64)],
) -> sqlx::Result<u64> {
    let statement = take_statement(taken.len());
    let mut query = sqlx::query(&statement);
    if let [(item, units)] = taken {
        query = query.bind(units).bind(item.get()).bind(units);
    } else {
        // Repeated to a power of two: a row is found once, however often it is named.
        for (item, units) in repeated(taken) {
            query = query.bind(item.get()).bind(units);
        }
        for (item, _) in repeated(taken) {
            query = query.bind(item.get());
        }
        for (item, units) in repeated(taken) {
            query = query.bind(item.get()).bind(units);
        }
    }
    Ok(query.execute(connection).await?.rows_affected())
}

/// The items, and the last one again until there are a power of two of them.
fn repeated(taken: &[(ItemId, i64)]) -> impl Iterator<Item = &(ItemId, i64)> {
    let length = taken.len().next_power_of_two();
    taken.iter().chain(taken.last().into_iter().cycle()).take(length)
}

/// The statement that takes the stock of a number of items: one range over the primary key, also
/// where the batch has so large a part of all items that the optimizer would choose a scan.
fn take_statement(items: usize) -> String {
    if items == 1 {
        return stock_update("stock", "?", "= ?");
    }
    let length = items.next_power_of_two();
    let by_item = format!("CASE item_id{} END", " WHEN ? THEN ?".repeat(length));
    let places = vec!["?"; length].join(", ");
    let stock = "stock FORCE INDEX (PRIMARY)";
    stock_update(stock, &by_item, &format!("IN ({places})"))
}
