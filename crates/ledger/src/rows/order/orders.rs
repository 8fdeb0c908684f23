//! Reads orders; only `arbiter` and `order` write them.

use std::collections::HashMap;

use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{FromRow, MySql, MySqlConnection, MySqlExecutor, QueryBuilder, Row};

use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read, in_list};
use mysql_connection::{Database, answered, within};
use shop_domain::columns::Text;
use shop_domain::{ItemId, Order, OrderId, OrderStatus, RequestKey, UserId};

/// The columns of an [`Order`].
pub const COLUMNS: &str = Order::COLUMNS;

/// Lines that one statement reads.
const LINES_TOGETHER_MAX: usize = 256;

/// The condition for orders and no further lines of them.
pub(crate) const WHOLE: &str = "(line_count IS NULL OR RIGHT(orders.id, 2) = '00')";

/// Finds an owner's order with its lines; another user's order is not found.
pub async fn find(pool: &Database, id: OrderId, owner: UserId) -> sqlx::Result<Option<Order>> {
    let statement =
        format!("SELECT {COLUMNS} FROM orders WHERE id = ? AND user_id = ? AND {WHOLE}");
    let order = sqlx::query_as(&statement).bind(id.to_string()).bind(owner.get()).first(pool);
    with_lines(pool, order.await?.into_iter().collect()).await.map(|mut found| found.pop())
}

/// Reads the further lines of orders on a connection of its own, if there are some.
async fn with_lines<T: AsMut<Order>>(pool: &Database, mut orders: Vec<T>) -> sqlx::Result<Vec<T>> {
    if orders.iter_mut().any(|order| order.as_mut().line_count.is_some()) {
        // Boxed: it is rarely awaited, and would make the future of each caller larger.
        let mut connection = Box::pin(answered(pool.acquire())).await?;
        Box::pin(add_lines(&mut connection, &mut orders)).await?;
    }
    Ok(orders)
}

/// Locks orders until the transaction ends. By a statement of its own: where columns have subqueries, as [`COLUMNS`], a
/// vtgate of Vitess reads items in shards without the lock. Where all orders are of one item, `item` says in which shard.
///
/// # Errors
/// The database's.
pub(crate) async fn lock(
    connection: &mut MySqlConnection,
    ids: &[OrderId],
    item: Option<ItemId>,
) -> sqlx::Result<()> {
    for chunk in ids.chunks(LINES_TOGETHER_MAX) {
        let Some((places, ids)) = in_list(chunk) else { break };
        let of_item = if item.is_some() { "AND item_id = ?" } else { "" };
        let statement = format!(
            "SELECT id, status FROM orders FORCE INDEX (PRIMARY) \
             WHERE id IN ({places}) {of_item} FOR UPDATE"
        );
        let select = ids.fold(sqlx::query(&statement), |select, id| select.bind(id.to_string()));
        let select = item.into_iter().fold(select, |select, item| select.bind(item.get()));
        select.all(&mut *connection).await?;
    }
    Ok(())
}

/// Locks the further lines of orders, and reads them.
///
/// # Errors
/// The database's, and that a line is missing.
pub(crate) async fn lock_lines<T: AsMut<Order>>(
    connection: &mut MySqlConnection,
    orders: &mut [T],
) -> sqlx::Result<()> {
    let ids: Vec<OrderId> =
        orders.iter_mut().flat_map(|order| order.as_mut().further_ids()).collect();
    lock(connection, &ids, None).await?;
    add_lines(connection, orders).await
}

/// Reads the further lines of orders.
///
/// # Errors
/// The database's, and that a line is missing.
pub async fn add_lines<T: AsMut<Order>>(
    connection: &mut MySqlConnection,
    orders: &mut [T],
) -> sqlx::Result<()> {
    let ids: Vec<OrderId> =
        orders.iter_mut().flat_map(|order| order.as_mut().further_ids()).collect();
    let mut lines: HashMap<OrderId, Order> = HashMap::with_capacity(ids.len());
    for chunk in ids.chunks(LINES_TOGETHER_MAX) {
        let Some((places, ids)) = in_list(chunk) else { break };
        let statement =
            format!("SELECT {COLUMNS} FROM orders FORCE INDEX (PRIMARY) WHERE id IN ({places})");
        let select = ids.fold(sqlx::query_as(&statement), |select, id| select.bind(id.to_string()));
        let read: Vec<Order> = select.all(&mut *connection).await?;
        lines.extend(read.into_iter().map(|line| (line.id, line)));
    }
    for order in orders.iter_mut().map(AsMut::as_mut) {
        let further = order.further_ids().map(|id| lines.remove(&id));
        order.further = further.collect::<Option<_>>().ok_or(sqlx::Error::RowNotFound)?;
    }
    Ok(())
}

/// The rows of all lines of an order, for a statement that changes them: by their ids, and by their items for a ledger with
/// shards.
pub(crate) struct LinesOf {
    pub(crate) condition: String,
    /// Their number.
    pub(crate) rows: u64,
    ids: Vec<OrderId>,
    items: Vec<ItemId>,
}

impl LinesOf {
    /// The lines of an order.
    pub(crate) fn order(order: &Order) -> Option<Self> {
        let of_lines: Vec<OrderId> = order.lines().map(|line| line.id).collect();
        let items: Vec<ItemId> = order.lines().map(|line| line.item_id).collect();
        let (places, ids) = in_list(&of_lines)?;
        let (item_places, items) = in_list(&items)?;
        Some(Self {
            condition: format!("id IN ({places}) AND item_id IN ({item_places})"),
            rows: of_lines.len() as u64,
            ids: ids.collect(),
            items: items.collect(),
        })
    }

    /// Binds the values of the condition.
    pub(crate) fn bind<'q>(
        &self,
        query: Query<'q, MySql, MySqlArguments>,
    ) -> Query<'q, MySql, MySqlArguments> {
        let query = self.ids.iter().fold(query, |query, id| query.bind(id.to_string()));
        self.items.iter().fold(query, |query, item| query.bind(item.get()))
    }
}

/// Finds the order of a request.
pub async fn find_by_key(
    executor: impl MySqlExecutor<'_>,
    buyer: UserId,
    item: ItemId,
    key: &RequestKey,
) -> sqlx::Result<Option<Order>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM orders WHERE item_id = ? AND user_id = ? AND request_key = ?"
    );
    sqlx::query_as(&statement).binds((item.get(), buyer.get(), key.as_str())).first(executor).await
}

/// A request: buyer, item and key.
pub type RequestOf = (UserId, ItemId, String);

/// Converts a row of the columns `user_id`, `item_id` and `request_key`.
pub(super) fn request_of((buyer, item, Text(key)): (UserId, ItemId, Text)) -> RequestOf {
    (buyer, item, key)
}

/// Finds the orders of many requests at a time.
pub async fn find_by_keys(
    connection: &mut MySqlConnection,
    requests: &[RequestOf],
) -> sqlx::Result<HashMap<RequestOf, Order>> {
    let columns = format!("{COLUMNS}, request_key");
    let mut found = HashMap::new();
    for row in with_keys(connection, &columns, requests).await? {
        let Text(key) = row.try_get("request_key")?;
        let order = Order::from_row(&row)?;
        found.insert((order.user_id, order.item_id, key), order);
    }
    Ok(found)
}

/// Finds the given requests that have written an order visible to the connection's session.
pub async fn written(
    connection: &mut MySqlConnection,
    requests: &[RequestOf],
) -> sqlx::Result<Vec<RequestOf>> {
    let rows = with_keys(connection, "user_id, item_id, request_key", requests).await?;
    rows.iter().map(|row| FromRow::from_row(row).map(request_of)).collect()
}

async fn with_keys(
    connection: &mut MySqlConnection,
    columns: &str,
    requests: &[RequestOf],
) -> sqlx::Result<Vec<MySqlRow>> {
    // A repeated request in the list is harmless.
    let requests: Vec<&RequestOf> = requests.iter().collect();
    let Some((_, padded)) = in_list(&requests) else { return Ok(Vec::new()) };
    let mut select = QueryBuilder::new(format!(
        "SELECT {columns} FROM orders WHERE (item_id, user_id, request_key) IN"
    ));
    select.push_tuples(padded, |mut row, (buyer, item, key)| {
        row.push_bind(item.get()).push_bind(buyer.get()).push_bind(key);
    });
    select.build().all(connection).await
}

/// Lists an owner's orders, newest first, at most `limit`, older than `before` if it is given.
pub async fn list(
    pool: &Database,
    owner: UserId,
    before: Option<OrderId>,
    limit: u32,
) -> sqlx::Result<Vec<Order>> {
    let buckets = buyer_buckets(pool).await?;
    // Ids are in time order, so they serve as the cursor; `~` sorts after every id.
    let statement = format!(
        "SELECT {COLUMNS} FROM orders \
         WHERE buyer_bucket IN ({buckets}) AND user_id = ? AND id < ? AND {WHOLE} \
         ORDER BY id DESC LIMIT ?"
    );
    let before = before.map_or_else(|| "~".to_owned(), |id| id.to_string());
    let listed = sqlx::query_as(&statement).binds((owner.get(), before, limit)).all(pool).await?;
    with_lines(pool, listed).await
}

/// Items with neighbouring ids whose orders share a bucket. More make the list of a buyer's orders cheaper,
/// and the part of the index that a sale changes larger.
const BUCKET_ITEMS: u64 = 16;
/// The number of buckets, which limits the ranges that a list reads. Later items share them with the first ones.
const BUCKETS_MAX: u64 = 512;

/// The bucket of an item's orders: the first column of the index by which a buyer's orders are found. An
/// index that began with the buyer would be changed by each order at another place: as soon as it is larger
/// than the database's memory, each order would read one of its pages and write it back. Bucket 0 has the
/// orders that were written before there were buckets.
pub(crate) fn buyer_bucket(item: ItemId) -> u64 {
    1 + (bucket_number(item) - 1) % BUCKETS_MAX
}

/// The number of a bucket, from 1 on, if later items had buckets of their own.
fn bucket_number(item: ItemId) -> u64 {
    1 + item.get().unsigned_abs() / BUCKET_ITEMS
}

/// Lists the buckets in which the ledger may have orders, separated by commas.
pub async fn buyer_buckets(pool: &Database) -> sqlx::Result<String> {
    let newest: Option<ItemId> =
        sqlx::query_scalar("SELECT MAX(item_id) FROM stock").one(pool).await?;
    let buckets = 0..=newest.map_or(0, bucket_number).min(BUCKETS_MAX);
    Ok(buckets.map(|bucket| bucket.to_string()).collect::<Vec<_>>().join(", "))
}

/// The columns of an order that an evaluation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    pub id: OrderId,
    /// The key of the request that made it.
    pub request_key: String,
    pub status: OrderStatus,
}

/// Reads all orders of an item, in no order.
pub async fn of_item(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Vec<OrderRecord>> {
    let orders = sqlx::query_as("SELECT id, request_key, status FROM orders WHERE item_id = ?")
        .bind(item.get())
        .fetch_all(executor);
    within(LONG_READ_MAX, orders).await
}

from_row!(OrderRecord { id, request_key as Text, status });

/// The orders of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderCount {
    /// The number of orders.
    pub orders: i64,
    /// The sum of their units.
    pub units: i64,
}

/// Counts an item's orders by status; a status without orders is left out.
pub async fn count_by_status(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Vec<(OrderStatus, OrderCount)>> {
    let rows = sqlx::query_as(
        "SELECT status, COUNT(*) AS orders, CAST(SUM(quantity) AS SIGNED) AS units \
         FROM orders WHERE item_id = ? GROUP BY status",
    )
    .bind(item.get())
    .fetch_all(executor);
    let rows = within(LONG_READ_MAX, rows).await?;
    let count = |(status, orders, units)| (status, OrderCount { orders, units });
    Ok(rows.into_iter().map(count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_items_share_a_bucket_and_none_has_that_of_old_orders() {
        let bucket = |item| buyer_bucket(ItemId::new(item).expect("positive"));
        assert_eq!([1, 15, 16, 31, 32].map(bucket), [1, 1, 2, 2, 3]);
        assert_eq!([8_191, 8_192].map(bucket), [512, 1]);
        assert!((1..=BUCKETS_MAX).contains(&bucket(i64::MAX)));
    }
}
