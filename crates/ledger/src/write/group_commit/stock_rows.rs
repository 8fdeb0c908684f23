//! The statement that takes the stock of a batch.

use sqlx::MySqlConnection;

use crate::write::new_order::stock_update;
use shop_domain::ItemId;

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
