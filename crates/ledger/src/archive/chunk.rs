//! Orders leave in chunks, each a transaction. The lines of an order leave together, so that at any moment an order is
//! here with all its lines or not at all.

use std::collections::BTreeSet;

use sqlx::MySqlConnection;

use super::{is_recorded, lock};
use crate::rows::link::{LONG_READ_MAX, within};
use crate::rows::statement::{Binds, Read, Write, in_list};
use crate::{Database, Ledger, RetryPolicy};
use shop_domain::{ItemId, ItemRoute, OrderId};

/// The condition that `others` is a line of the order of which `own` is one.
pub(super) const SAME_ORDER: &str =
    "others.id BETWEEN CONCAT(LEFT(own.id, 34), '00') AND CONCAT(LEFT(own.id, 34), 'ff')";

/// Lists the other items of an item's orders whose file is recorded. The caller compares each file with its digest
/// before it lets lines of that item leave.
pub async fn sharing(pool: &Database, item: ItemId) -> sqlx::Result<Vec<ItemId>> {
    let statement = format!(
        "SELECT item_id FROM archives WHERE file <> '' AND ended_at IS NULL AND item_id <> ? AND item_id IN \
         (SELECT others.item_id FROM orders AS own JOIN orders AS others ON {SAME_ORDER} \
          WHERE own.item_id = ? AND own.line_count > 1)"
    );
    let asked = sqlx::query_scalar(&statement).binds((item.get(), item.get()));
    within(LONG_READ_MAX, asked.fetch_all(pool)).await
}

/// Deletes at most `limit` orders of an item whose file is recorded, with their movements, their part of the
/// buyers' limits and their places in the waiting list, and adds them to the sums. An order of several items leaves
/// with all its lines if the other items are in `others`; else it stays. Returns how many orders left, and counts
/// each line as one.
pub async fn remove_chunk(
    ledger: &Ledger,
    routed: ItemRoute,
    others: &[ItemId],
    limit: u32,
) -> sqlx::Result<usize> {
    let remove = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(remove_in(transaction, routed, others, limit))
    });
    remove.await
}

async fn remove_in(
    transaction: &mut MySqlConnection,
    routed: ItemRoute,
    others: &[ItemId],
    limit: u32,
) -> sqlx::Result<usize> {
    let items = lock_recorded(transaction, routed.item, others).await?;
    if lock(transaction, routed).await? != 1 || !is_recorded(transaction, routed.item).await? {
        return Ok(0);
    }
    let ids = whole_orders(transaction, routed.item, &items, limit).await?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let Some(((item_places, _), (places, _))) = in_list(&items).zip(in_list(&ids)) else {
        return Ok(0);
    };
    let chunk = [
        format!(
            "INSERT INTO archived_orders \
             (item_id, limit_group_id, status, orders, quantity, amount_cents) \
             SELECT item_id, COALESCE(limit_group_id, 0), status, COUNT(*), SUM(quantity), SUM(amount_cents) \
             FROM orders WHERE item_id IN ({item_places}) AND id IN ({places}) \
             GROUP BY item_id, COALESCE(limit_group_id, 0), status ON DUPLICATE KEY UPDATE \
             orders = archived_orders.orders + VALUES(orders), \
             quantity = archived_orders.quantity + VALUES(quantity), \
             amount_cents = archived_orders.amount_cents + VALUES(amount_cents)"
        ),
        format!(
            "INSERT INTO archived_movements (item_id, reason, movements, delta) \
             SELECT item_id, reason, COUNT(*), SUM(delta) FROM stock_movements \
             WHERE item_id IN ({item_places}) AND order_id IN ({places}) GROUP BY item_id, reason \
             ON DUPLICATE KEY UPDATE movements = archived_movements.movements + VALUES(movements), \
             delta = archived_movements.delta + VALUES(delta)"
        ),
        format!(
            "UPDATE buyer_limits JOIN (SELECT item_id, user_id, CAST(SUM(quantity) AS SIGNED) AS units \
              FROM orders WHERE item_id IN ({item_places}) AND id IN ({places}) AND status = 'paid' \
              GROUP BY item_id, user_id) AS gone \
             ON gone.item_id = buyer_limits.item_id AND gone.user_id = buyer_limits.user_id \
             SET bought = bought - units"
        ),
    ];
    let delete = [("waiting_list", "order_id"), ("stock_movements", "order_id"), ("orders", "id")];
    let delete = delete.map(|(table, id)| {
        format!("DELETE FROM {table} WHERE item_id IN ({item_places}) AND {id} IN ({places})")
    });
    for statement in chunk.iter().chain(&delete) {
        let mut query = sqlx::query(statement);
        for item in in_list(&items).into_iter().flat_map(|(_, items)| items) {
            query = query.bind(item.get());
        }
        for id in in_list(&ids).into_iter().flat_map(|(_, ids)| ids) {
            query = query.bind(id);
        }
        query.run(&mut *transaction).await?;
        failpoint!("archive-chunk-half");
    }
    Ok(ids.len())
}

/// Locks the stock rows of an item and of the `others`, in one order for all archivers. Returns the item and those of
/// the others whose files are recorded.
async fn lock_recorded(
    transaction: &mut MySqlConnection,
    item: ItemId,
    others: &[ItemId],
) -> sqlx::Result<Vec<ItemId>> {
    if others.is_empty() {
        return Ok(vec![item]);
    }
    let all: BTreeSet<ItemId> = others.iter().copied().chain([item]).collect();
    let mut items = vec![item];
    for one in all {
        let row = "SELECT archive FROM stock WHERE item_id = ? FOR UPDATE";
        let archive: Option<u8> =
            sqlx::query_scalar(row).bind(one.get()).first(&mut *transaction).await?;
        if one != item && archive == Some(1) && is_recorded(transaction, one).await? {
            items.push(one);
        }
    }
    Ok(items)
}

/// Locks at most `limit` lines of orders of an item, of which all lines are of `items`; the last order may have more.
/// Returns the ids of all their lines.
async fn whole_orders(
    transaction: &mut MySqlConnection,
    item: ItemId,
    items: &[ItemId],
    limit: u32,
) -> sqlx::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    let Some((places, items)) = in_list(items) else { return Ok(ids) };
    let statement = format!(
        "SELECT id, line_count FROM orders AS own WHERE item_id = ? AND (line_count IS NULL OR NOT EXISTS \
          (SELECT 1 FROM orders AS others WHERE {SAME_ORDER} AND others.item_id NOT IN ({places}))) \
         LIMIT ? FOR UPDATE"
    );
    let mut select = sqlx::query_as(&statement).bind(item.get());
    for item in items {
        select = select.bind(item.get());
    }
    let own: Vec<(String, Option<u8>)> = select.bind(limit).all(transaction).await?;
    for (id, line_count) in own {
        if let (Some(line), Some(count)) = (OrderId::parse(&id), line_count) {
            ids.extend((0..count).map(|number| line.line(number).to_string()));
        }
        ids.insert(id);
        if ids.len() >= limit as usize {
            break;
        }
    }
    Ok(ids)
}
