//! Sales, orders and movements of stock, page by page, in one snapshot of the ledger, with their sums.

use std::collections::{BTreeMap, HashMap};

use sqlx::{MySql, MySqlConnection, QueryBuilder};
use time::OffsetDateTime;

use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read};
use mysql_connection::within;
use shop_domain::columns::Text;
use shop_domain::{Currency, ItemId, Order, from_row, row};

/// How far an id may be from the time of its row: the clocks of instances differ, and a queued order
/// has its id before it is in the ledger.
const ID_MARGIN: time::Duration = time::Duration::DAY;
/// An id that no order has, and that sorts before all ids.
pub const FIRST: &str = "";

/// Which rows are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection {
    /// One item, or all.
    pub item: Option<ItemId>,
    /// Rows of this time and later.
    pub from: Option<OffsetDateTime>,
    /// Rows before this time.
    pub until: Option<OffsetDateTime>,
}

impl Selection {
    /// Adds conditions on `column`, the time of a row.
    fn restrict(self, query: &mut QueryBuilder<'_, MySql>, column: &str) {
        for (at, operator) in [(self.from, ">="), (self.until, "<")] {
            if let Some(at) = at {
                query.push(format!(" AND {column} {operator} ")).push_bind(at);
            }
        }
    }

    /// Adds a condition on `column`, the item of a row.
    fn restrict_item(self, query: &mut QueryBuilder<'_, MySql>, column: &str) {
        if let Some(item) = self.item {
            query.push(format!(" AND {column} = ")).push_bind(item.get());
        }
    }

    /// Adds conditions for orders. Ids begin with their time, so that a short time reads few rows.
    fn restrict_orders(self, query: &mut QueryBuilder<'_, MySql>) {
        self.restrict_item(query, "item_id");
        // At the ends of the calendar there is no day before or after, and no id to leave out.
        if let Some(first) = self.from.and_then(|from| from.checked_sub(ID_MARGIN)) {
            query.push(" AND id >= ").push_bind(id_of(first));
        }
        if let Some(end) = self.until.and_then(|until| until.checked_add(ID_MARGIN)) {
            query.push(" AND id < ").push_bind(id_of(end));
        }
        self.restrict(query, "created_at");
    }
}

/// The first 12 digits of an id that is made at `time`, with the hyphen.
fn id_of(time: OffsetDateTime) -> String {
    let ms = u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    format!("{:08x}-{:04x}", ms >> 16, ms & 0xffff)
}

/// Reads orders behind the id `after`, by id.
pub async fn orders(
    connection: &mut MySqlConnection,
    selection: Selection,
    after: &str,
    limit: u32,
) -> sqlx::Result<Vec<Order>> {
    let columns = Order::COLUMNS;
    let mut query = QueryBuilder::new(format!("SELECT {columns} FROM orders WHERE id > "));
    query.push_bind(after.to_owned());
    selection.restrict_orders(&mut query);
    query.push(" ORDER BY id LIMIT ").push_bind(limit);
    within(LONG_READ_MAX, query.build_query_as().fetch_all(connection)).await
}

/// The items whose rows one statement adds up. Each has a few sums: together fewer than the rows that a vttablet of Vitess
/// returns (`deploy/vitess/vttablet.flags`).
const ITEMS_TOGETHER_MAX: u32 = 10_000;

/// The selected items whose rows one statement adds up: behind the id `after`, up to `until`.
///
/// A statement reads one table, and has a sum for each item: each shard of a ledger can answer for its own items.
struct ItemsTogether {
    after: i64,
    until: i64,
    currencies: HashMap<i64, Currency>,
}

impl ItemsTogether {
    async fn behind(
        connection: &mut MySqlConnection,
        selection: Selection,
        after: i64,
    ) -> sqlx::Result<Self> {
        let mut query = QueryBuilder::new("SELECT id, currency FROM items WHERE id > ");
        query.push_bind(after);
        selection.restrict_item(&mut query, "id");
        query.push(" ORDER BY id LIMIT ").push_bind(ITEMS_TOGETHER_MAX);
        let read = query.build_query_as().fetch_all(connection);
        let items: Vec<(i64, Currency)> = within(LONG_READ_MAX, read).await?;
        // With the last items come rows of items that are missing.
        let is_full = items.len() == ITEMS_TOGETHER_MAX as usize;
        let until = items.last().filter(|_| is_full).map_or(i64::MAX, |(id, _)| *id);
        Ok(Self { after, until, currencies: items.into_iter().collect() })
    }

    /// Adds conditions for rows of these items.
    fn restrict(&self, query: &mut QueryBuilder<'_, MySql>) {
        if self.after > i64::MIN {
            query.push(" AND item_id > ").push_bind(self.after);
        }
        if self.until < i64::MAX {
            query.push(" AND item_id <= ").push_bind(self.until);
        }
    }
}

/// The sums of orders of one status and currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSum {
    pub status: String,
    pub currency: Currency,
    /// The number of orders.
    pub count: i64,
    /// Their units.
    pub quantity: i64,
    /// Their money.
    pub amount_cents: i64,
}

/// Adds up orders by status and currency.
pub async fn order_sums(
    connection: &mut MySqlConnection,
    selection: Selection,
) -> sqlx::Result<Vec<OrderSum>> {
    type OfItem = (i64, Text, i64, i64, i64);
    let mut sums: BTreeMap<(String, &str), OrderSum> = BTreeMap::new();
    let mut after = i64::MIN;
    while after < i64::MAX {
        let items = ItemsTogether::behind(&mut *connection, selection, after).await?;
        let mut query = QueryBuilder::new(
            "SELECT item_id, status, COUNT(*), CAST(SUM(quantity) AS SIGNED), \
             CAST(SUM(amount_cents) AS SIGNED) FROM orders WHERE TRUE",
        );
        items.restrict(&mut query);
        selection.restrict_orders(&mut query);
        query.push(" GROUP BY item_id, status");
        let read = query.build_query_as().fetch_all(&mut *connection);
        let of_items: Vec<OfItem> = within(LONG_READ_MAX, read).await?;
        for (item, Text(status), count, quantity, amount_cents) in of_items {
            let Some(&currency) = items.currencies.get(&item) else { continue };
            let none = OrderSum { status, currency, count: 0, quantity: 0, amount_cents: 0 };
            let sum = sums.entry((none.status.clone(), currency.as_str())).or_insert(none);
            sum.count = sum.count.saturating_add(count);
            sum.quantity = sum.quantity.saturating_add(quantity);
            sum.amount_cents = sum.amount_cents.saturating_add(amount_cents);
        }
        after = items.until;
    }
    Ok(sums.into_values().collect())
}

/// A movement of stock: by an order, or by a restock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    pub item: ItemId,
    /// The order, or the restock.
    pub id: String,
    /// `sold`, `cancelled`, `expired`, `late_payment` or `restock`.
    pub reason: String,
    /// Units: negative when stock was taken.
    pub delta: i64,
    /// The time.
    pub created_at: OffsetDateTime,
}

from_row!(Movement { item: "item_id", id as Text, reason as Text, delta, created_at });

/// Reads movements of one item behind the id `after.0` and its reason `after.1`.
pub async fn movements(
    connection: &mut MySqlConnection,
    item: ItemId,
    selection: Selection,
    after: (&str, &str),
    limit: u32,
) -> sqlx::Result<Vec<Movement>> {
    let mut query = QueryBuilder::new(
        "SELECT item_id, order_id AS id, reason, delta, created_at FROM stock_movements \
         WHERE item_id = ",
    );
    query.push_bind(item.get());
    query.push(" AND (order_id > ").push_bind(after.0.to_owned());
    query.push(" OR (order_id = ").push_bind(after.0.to_owned());
    query.push(" AND reason > ").push_bind(after.1.to_owned()).push("))");
    selection.restrict(&mut query, "created_at");
    query.push(" ORDER BY order_id, reason LIMIT ").push_bind(limit);
    within(LONG_READ_MAX, query.build_query_as().fetch_all(connection)).await
}

/// Reads restocks of one item behind the id `after`.
pub async fn restocks(
    connection: &mut MySqlConnection,
    item: ItemId,
    selection: Selection,
    after: &str,
    limit: u32,
) -> sqlx::Result<Vec<Movement>> {
    let mut query = QueryBuilder::new(
        "SELECT item_id, id, 'restock' AS reason, delta - waiting AS delta, created_at \
         FROM restocks WHERE item_id = ",
    );
    query.push_bind(item.get()).push(" AND id > ").push_bind(after.to_owned());
    selection.restrict(&mut query, "created_at");
    query.push(" ORDER BY id LIMIT ").push_bind(limit);
    within(LONG_READ_MAX, query.build_query_as().fetch_all(connection)).await
}

/// The sum of movements of one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovementSum {
    pub reason: String,
    /// The number of movements.
    pub count: i64,
    /// The sum of their units.
    pub delta: i64,
}

/// Adds up movements and restocks by reason.
pub async fn movement_sums(
    connection: &mut MySqlConnection,
    selection: Selection,
) -> sqlx::Result<Vec<MovementSum>> {
    type OfItem = (i64, Text, i64, i64);
    let mut sums: BTreeMap<String, MovementSum> = BTreeMap::new();
    let mut after = i64::MIN;
    while after < i64::MAX {
        let items = ItemsTogether::behind(&mut *connection, selection, after).await?;
        for (statement, groups) in [(MOVED, "item_id, reason"), (RESTOCKED, "item_id")] {
            let mut query = QueryBuilder::new(statement);
            items.restrict(&mut query);
            selection.restrict_item(&mut query, "item_id");
            selection.restrict(&mut query, "created_at");
            query.push(format!(" GROUP BY {groups}"));
            let read = query.build_query_as().fetch_all(&mut *connection);
            let of_items: Vec<OfItem> = within(LONG_READ_MAX, read).await?;
            for (_, Text(reason), count, delta) in of_items {
                let none = MovementSum { reason, count: 0, delta: 0 };
                let sum = sums.entry(none.reason.clone()).or_insert(none);
                sum.count = sum.count.saturating_add(count);
                sum.delta = sum.delta.saturating_add(delta);
            }
        }
        after = items.until;
    }
    Ok(sums.into_values().collect())
}

const MOVED: &str = "SELECT item_id, reason, COUNT(*), CAST(SUM(delta) AS SIGNED) \
     FROM stock_movements WHERE TRUE";
const RESTOCKED: &str = "SELECT item_id, 'restock' AS reason, COUNT(*), \
     CAST(SUM(delta - waiting) AS SIGNED) FROM restocks WHERE TRUE";

row! {
    /// A sale with what the audit adds up.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Sale {
        pub id: ItemId,
        pub name: String,
        pub kind: String,
        pub strategy: String,
        pub price_cents: i64,
        pub currency: Currency,
        pub starts_at: OffsetDateTime,
        pub ends_at: OffsetDateTime,
        pub total: i64,
        pub available: i64,
        /// Units that are offered to buyers who wait, or to those that a draw has chosen.
        pub offered: i64,
        /// Orders, whatever their status.
        pub orders: i64,
        /// Units of unpaid orders that hold stock.
        pub held: i64,
        /// Units of paid orders.
        pub sold: i64,
        /// The money of paid orders.
        pub paid_cents: i64,
        pub description: String,
        pub image_url: Option<String>,
        pub per_buyer_limit: u32,
        pub unpaid_max: u32,
        pub hold_seconds: u32,
        pub arbiter: String,
        pub waiting_room: bool,
        pub offer_seconds: u32,
        pub extend_seconds: u32,
        pub return_seconds: u32,
        pub limit_group_id: Option<i64>,
        pub product_id: Option<i64>,
        /// JSON: pairs of a name and a value.
        pub options: Option<String>,
        pub is_drawn: bool,
    }
}

/// Reads sales that start in the selected time, behind the id `after`, by id.
pub async fn sales(
    connection: &mut MySqlConnection,
    selection: Selection,
    after: i64,
    limit: u32,
) -> sqlx::Result<Vec<Sale>> {
    let sum = |what: &str, status: &str| {
        format!(
            "CAST(COALESCE((SELECT SUM({what}) FROM orders WHERE item_id = items.id \
             AND status = '{status}'), 0) AS SIGNED)"
        )
    };
    let held = sum("quantity", "pending");
    let sold = sum("quantity", "paid");
    let paid = sum("amount_cents", "paid");
    let mut query = QueryBuilder::new(format!(
        "SELECT items.id, name, kind, strategy, price_cents, \
         currency, starts_at, ends_at, total, available, offered, \
         (SELECT COUNT(*) FROM orders WHERE item_id = items.id) AS orders, \
         {held} AS held, {sold} AS sold, {paid} AS paid_cents, \
         description, image_url, per_buyer_limit, unpaid_max, hold_seconds, arbiter, waiting_room, \
         offer_seconds, extend_seconds, return_seconds, limit_group_id, product_id, options, \
         EXISTS (SELECT 1 FROM draws WHERE item_id = items.id) AS is_drawn \
         FROM items JOIN stock ON stock.item_id = items.id WHERE items.id > "
    ));
    query.push_bind(after);
    selection.restrict_item(&mut query, "items.id");
    selection.restrict(&mut query, "starts_at");
    query.push(" ORDER BY items.id LIMIT ").push_bind(limit);
    within(LONG_READ_MAX, query.build_query_as().fetch_all(connection)).await
}

/// Lists ids of items behind `after`, in order.
pub async fn item_ids(
    connection: &mut MySqlConnection,
    selection: Selection,
    after: i64,
    limit: u32,
) -> sqlx::Result<Vec<ItemId>> {
    if let Some(item) = selection.item {
        return Ok(if item.get() > after { vec![item] } else { Vec::new() });
    }
    let ids = sqlx::query_scalar("SELECT id FROM items WHERE id > ? ORDER BY id LIMIT ?");
    ids.binds((after, limit)).all(connection).await
}
