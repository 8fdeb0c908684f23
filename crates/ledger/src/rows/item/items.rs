//! Items: the statements that read, insert and update their rows, and read their stock rows. `catalog` decides which
//! changes are allowed; only the arbiter takes stock.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::mysql::MySqlRow;
use sqlx::{FromRow, MySqlConnection, MySqlExecutor, Row};
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::products;
use mysql_connection::statement::{Binds, Read, Write, in_list};
use mysql_connection::{Database, answered, out_of_range};
use shop_domain::product::NewVariant;
use shop_domain::{
    Currency, Item, ItemDraw, ItemId, LimitGroup, LimitGroupId, NewItem, ProductId, SaleWindow,
};

/// An item with its stock at the moment of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockedItem {
    pub item: Arc<Item>,
    /// Units at the start and by restocks.
    pub total: i64,
    /// Units left.
    pub available: i64,
}

/// A stock row at the moment of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockRow {
    /// Units left; negative only where the lab turned the arbiter off.
    pub available: i64,
    /// The number of accepted changes.
    pub version: u64,
    /// The second of the last change, by the database's clock.
    pub changed_at: OffsetDateTime,
}

/// The columns of an item, each a plain one with its table: for a value that a vtgate of Vitess computes itself, from
/// tables in two keyspaces, a prepared statement names another type than it has.
const COLUMNS: &str = "items.id, items.name, items.description, items.image_url, items.price_cents, items.starts_at, \
     items.ends_at, items.per_buyer_limit, items.unpaid_max, items.hold_seconds, items.strategy, items.kind, \
     items.arbiter, items.paused, items.waiting_room, items.offer_seconds, items.extend_seconds, items.return_seconds, \
     items.limit_group_id, items.currency, \
     limit_groups.name AS group_name, limit_groups.per_buyer_limit AS group_limit, \
     redis_queues.item_id AS queue_item_id, draws.closes_at AS draw_closes_at, \
     draws.drawn_at AS draw_drawn_at, items.revision, stock.total, stock.available, \
     items.product_id, items.options, products.name AS product_name, \
     products.description AS product_description, products.image_url AS product_image_url";

/// An item with its stock, and what else [`COLUMNS`] need: first the tables that lie beside it where items are in shards.
const FROM: &str = "items JOIN stock ON stock.item_id = items.id \
     LEFT JOIN draws ON draws.item_id = items.id \
     LEFT JOIN redis_queues ON redis_queues.item_id = items.id \
     LEFT JOIN limit_groups ON limit_groups.id = items.limit_group_id \
     LEFT JOIN products ON products.id = items.product_id";

/// The most items that one list returns.
pub const LIST_MAX: u32 = 200;
/// Ids that one statement looks for.
const IDS_TOGETHER: usize = 1_000;

/// Reads one item by its id.
pub async fn find(
    executor: impl MySqlExecutor<'_>,
    id: ItemId,
) -> sqlx::Result<Option<StockedItem>> {
    let statement = format!("SELECT {COLUMNS} FROM {FROM} WHERE items.id = ?");
    sqlx::query_as(&statement).bind(id.get()).first(executor).await
}

/// The result of reading several items.
#[derive(Debug, Default)]
pub struct ItemsRead {
    /// The items that exist. A damaged row is the error of its item alone.
    pub found: HashMap<ItemId, sqlx::Result<StockedItem>>,
    /// The time by the database's clock; `None` when no item exists.
    pub ledger_now: Option<OffsetDateTime>,
}

/// Reads several items with one statement, and before it the time by the database's clock.
pub async fn find_several(pool: &Database, ids: &[ItemId]) -> sqlx::Result<ItemsRead> {
    let ledger_now = ledger_time(pool, ids).await?;
    let Some((places, ids)) = in_list(ids) else { return Ok(ItemsRead::default()) };
    let statement = format!("SELECT {COLUMNS} FROM {FROM} WHERE items.id IN ({places})");
    let mut query = sqlx::query(&statement);
    for id in ids {
        query = query.bind(id.get());
    }
    let mut read = ItemsRead { ledger_now, ..ItemsRead::default() };
    for row in query.all(pool).await? {
        read.found.insert(row.try_get("id")?, StockedItem::from_row(&row));
    }
    Ok(read)
}

/// Reads an item's stock without a lock; `None` when there is no such item.
pub async fn read_stock(
    from: impl MySqlExecutor<'_>,
    id: ItemId,
) -> sqlx::Result<Option<StockRow>> {
    sqlx::query_as("SELECT available, version, changed_at FROM stock WHERE item_id = ?")
        .bind(id.get())
        .first(from)
        .await
}

/// Reads the clock of the server that has the rows of these items, or of one of them where they lie in shards; `None` when
/// none of them exists. From a table: without one, a vtgate of Vitess answers by its own clock.
///
/// # Errors
/// The database's.
pub async fn ledger_time(
    from: impl MySqlExecutor<'_>,
    items: &[ItemId],
) -> sqlx::Result<Option<OffsetDateTime>> {
    if items.is_empty() {
        return Ok(None);
    }
    let ids: Vec<String> = items.iter().map(|item| item.get().to_string()).collect();
    let ids = ids.join(", ");
    let statement = format!("SELECT UTC_TIMESTAMP(6) FROM stock WHERE item_id IN ({ids}) LIMIT 1");
    // As a text: there would be a prepared statement for each number of items.
    let row = answered(from.fetch_optional(sqlx::raw_sql(&statement))).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Reads one item and locks its row and its stock's until the transaction ends.
pub async fn find_for_update(
    transaction: &mut MySqlConnection,
    id: ItemId,
) -> sqlx::Result<Option<StockedItem>> {
    // By a statement of its own: a vtgate of Vitess leaves the lock out where it joins.
    let lock = "SELECT items.id FROM items JOIN stock ON stock.item_id = items.id WHERE items.id = ? FOR UPDATE";
    let locked: Option<ItemId> =
        sqlx::query_scalar(lock).bind(id.get()).fetch_optional(&mut *transaction).await?;
    if locked.is_some() { find(transaction, id).await } else { Ok(None) }
}

/// Reads the sales of the shop that ended after `since`, soonest end first, at most [`LIST_MAX`].
pub async fn list_shop(pool: &Database, since: OffsetDateTime) -> sqlx::Result<Vec<StockedItem>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE items.kind = 'shop' AND items.ends_at > ? \
         ORDER BY items.ends_at, items.id LIMIT {LIST_MAX}"
    );
    sqlx::query_as(&statement).bind(since).all(pool).await
}

/// Reads the items of a product, oldest first, at most [`LIST_MAX`].
pub async fn list_product(pool: &Database, product: ProductId) -> sqlx::Result<Vec<StockedItem>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM {FROM} WHERE items.product_id = ? ORDER BY items.id LIMIT {LIST_MAX}"
    );
    sqlx::query_as(&statement).bind(product.get()).all(pool).await
}

/// Returns those of some ids that are no items.
pub async fn unknown(pool: &Database, ids: &[ItemId]) -> sqlx::Result<Vec<ItemId>> {
    let mut unknown = Vec::new();
    for ids in ids.chunks(IDS_TOGETHER) {
        let Some((places, values)) = in_list(ids) else { continue };
        let statement = format!("SELECT id FROM items WHERE id IN ({places})");
        let query = values.fold(sqlx::query_scalar(&statement), |query, id| query.bind(id.get()));
        let found: Vec<ItemId> = query.all(pool).await?;
        unknown.extend(ids.iter().filter(|id| !found.contains(id)));
    }
    Ok(unknown)
}

/// Inserts an item without its stock.
pub async fn insert(
    transaction: &mut MySqlConnection,
    id: ItemId,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO items (id, name, description, image_url, price_cents, starts_at, ends_at, \
         per_buyer_limit, hold_seconds, strategy, kind, arbiter, waiting_room, offer_seconds, \
         extend_seconds, return_seconds, limit_group_id, currency, product_id, options, created_at, unpaid_max, \
         first_stock) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id.get())
    .bind(&new.name)
    .bind(&new.description)
    .bind(&new.image_url)
    .bind(new.price.cents())
    .bind(datetime(new.window.starts_at()))
    .bind(datetime(new.window.ends_at()))
    .bind(new.per_buyer_limit)
    .bind(new.hold_seconds)
    .bind(&new.strategy)
    .bind(new.kind.as_str())
    .bind(new.arbiter.as_str())
    .bind(new.waiting_room)
    .bind(new.offer_seconds)
    .bind(new.extend_seconds)
    .bind(new.return_seconds)
    .bind(new.limit_group.map(LimitGroupId::get))
    .bind(new.currency.as_str())
    .bind(new.variant.as_ref().map(|variant| variant.product.get()))
    .bind(new.variant.as_ref().map(|variant| products::stored(&variant.options)))
    .bind(now)
    .bind(new.unpaid_max)
    .bind(new.stock)
    .run(transaction)
    .await
}

/// Updates the columns that an edit may change, and increments the revision. The item of the edit has its former group and
/// variant.
pub async fn update(
    transaction: &mut MySqlConnection,
    edited: &Item,
    limit_group: Option<LimitGroupId>,
    variant: Option<&NewVariant>,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE items SET starts_at = ?, ends_at = ?, paused = ?, waiting_room = ?, \
         offer_seconds = ?, extend_seconds = ?, return_seconds = ?, limit_group_id = ?, \
         strategy = ?, currency = ?, product_id = ?, options = ?, unpaid_max = ?, \
         revision = revision + 1 WHERE id = ?",
    )
    .binds((
        datetime(edited.window.starts_at()),
        datetime(edited.window.ends_at()),
        edited.paused,
        edited.waiting_room,
        edited.offer_seconds,
        edited.extend_seconds,
        edited.return_seconds,
        limit_group.map(LimitGroupId::get),
    ))
    .binds((
        &edited.strategy,
        edited.currency.as_str(),
        variant.map(|variant| variant.product.get()),
        variant.map(|variant| products::stored(&variant.options)),
        edited.unpaid_max,
        edited.id.get(),
    ))
    .run(transaction)
    .await
}

/// Returns whether an item has orders.
pub(crate) async fn has_orders(
    transaction: &mut MySqlConnection,
    id: ItemId,
) -> sqlx::Result<bool> {
    let statement = "SELECT EXISTS (SELECT 1 FROM orders WHERE item_id = ?)";
    sqlx::query_scalar(statement).bind(id.get()).one(transaction).await
}

/// Reads the currency of an item.
pub async fn currency(pool: &Database, id: ItemId) -> sqlx::Result<Currency> {
    let statement = "SELECT currency FROM items WHERE id = ?";
    sqlx::query_scalar(statement).bind(id.get()).one(pool).await
}

/// Converts a time to a DATETIME in UTC. An `OffsetDateTime` is sent as a TIMESTAMP, which
/// MariaDB takes for NULL after January 2038.
pub fn datetime(instant: OffsetDateTime) -> PrimitiveDateTime {
    let instant = instant.to_offset(UtcOffset::UTC);
    PrimitiveDateTime::new(instant.date(), instant.time())
}

from_row!(StockRow { available, version, changed_at });

impl FromRow<'_, MySqlRow> for StockedItem {
    fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        let window = SaleWindow::new(row.try_get("starts_at")?, row.try_get("ends_at")?);
        let item = Item {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            description: row.try_get("description")?,
            image_url: row.try_get("image_url")?,
            price: row.try_get("price_cents")?,
            currency: row.try_get("currency")?,
            window: window.ok_or_else(|| out_of_range("starts_at"))?,
            per_buyer_limit: row.try_get("per_buyer_limit")?,
            unpaid_max: row.try_get("unpaid_max")?,
            hold_seconds: row.try_get("hold_seconds")?,
            strategy: row.try_get("strategy")?,
            kind: row.try_get("kind")?,
            arbiter: row.try_get("arbiter")?,
            paused: row.try_get("paused")?,
            waiting_room: row.try_get("waiting_room")?,
            offer_seconds: row.try_get("offer_seconds")?,
            extend_seconds: row.try_get("extend_seconds")?,
            return_seconds: row.try_get("return_seconds")?,
            limit_group: limit_group(row)?,
            variant: products::variant(row)?,
            draw: draw(row)?,
            has_queue: row.try_get::<Option<ItemId>, _>("queue_item_id")?.is_some(),
            revision: row.try_get("revision")?,
        };
        let total = row.try_get("total")?;
        let available = row.try_get("available")?;
        Ok(Self { item: Arc::new(item), total, available })
    }
}

/// The draw of an item, if it has one.
fn draw(row: &MySqlRow) -> sqlx::Result<Option<ItemDraw>> {
    let closes_at: Option<OffsetDateTime> = row.try_get("draw_closes_at")?;
    let is_drawn = row.try_get::<Option<OffsetDateTime>, _>("draw_drawn_at")?.is_some();
    Ok(closes_at.map(|closes_at| ItemDraw { closes_at, is_drawn }))
}

/// The group of an item, if it is in one that exists.
fn limit_group(row: &MySqlRow) -> sqlx::Result<Option<LimitGroup>> {
    let id: Option<LimitGroupId> = row.try_get("limit_group_id")?;
    let name: Option<String> = row.try_get("group_name")?;
    let limit: Option<u32> = row.try_get("group_limit")?;
    Ok(match (id, name, limit) {
        (Some(id), Some(name), Some(per_buyer_limit)) => {
            Some(LimitGroup { id, name, per_buyer_limit })
        }
        _ => None,
    })
}
