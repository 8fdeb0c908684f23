//! Items: created, edited and read. Their stock row is created with them.

use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::mysql::MySqlRow;
use sqlx::{MySqlExecutor, MySqlPool, Row};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::actions::{self, Actor};
use super::link::{TRANSACTION_MAX, answered, within};
use crate::domain::{ArbiterMode, Cents, Item, ItemId, ItemKind, OrderId, SaleWindow, UserId};

/// An item with its stock at the moment of reading.
#[derive(Clone, Debug)]
pub struct StockedItem {
    /// The item.
    pub item: Arc<Item>,
    /// Units at the start and by restocks.
    pub total: i64,
    /// Units left.
    pub available: i64,
}

/// What an item is made from; the id and the revision come from the database.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of Item")]
pub struct NewItem {
    pub name: String,
    pub description: String,
    pub image_url: Option<String>,
    pub price: Cents,
    pub stock: i64,
    pub window: SaleWindow,
    pub per_buyer_limit: u32,
    pub hold_seconds: u32,
    pub strategy: String,
    pub kind: ItemKind,
    pub arbiter: ArbiterMode,
    pub waiting_room: bool,
}

/// What an operator changes of an item; `None` leaves it.
#[derive(Clone, Debug, Default)]
pub struct ItemEdit {
    /// New start.
    pub starts_at: Option<OffsetDateTime>,
    /// New end.
    pub ends_at: Option<OffsetDateTime>,
    /// Pause or go on.
    pub paused: Option<bool>,
    /// Open or close the waiting room.
    pub waiting_room: Option<bool>,
    /// New meaning of `default`.
    pub strategy: Option<String>,
    /// Units to add to the sale, or to take out of it.
    pub stock_delta: Option<i64>,
    /// The revision that the operator saw; the edit is refused when there was another since.
    pub revision_seen: Option<u64>,
}

impl NewItem {
    /// What is written down of it.
    fn told(&self) -> Value {
        json!({
            "name": self.name,
            "price_cents": self.price.cents(),
            "stock": self.stock,
            "starts_at": text(Some(self.window.starts_at())),
            "ends_at": text(Some(self.window.ends_at())),
            "per_buyer_limit": self.per_buyer_limit,
            "hold_seconds": self.hold_seconds,
            "strategy": self.strategy,
            "kind": self.kind.as_str(),
            "arbiter": self.arbiter.as_str(),
            "waiting_room": self.waiting_room,
        })
    }
}

impl ItemEdit {
    /// What is written down of it: the fields that it changes.
    fn told(&self) -> Value {
        let mut told = json!({
            "starts_at": text(self.starts_at),
            "ends_at": text(self.ends_at),
            "paused": self.paused,
            "waiting_room": self.waiting_room,
            "strategy": self.strategy,
            "stock_delta": self.stock_delta.filter(|delta| *delta != 0),
        });
        if let Some(fields) = told.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        told
    }
}

fn text(instant: Option<OffsetDateTime>) -> Option<String> {
    instant.and_then(|instant| instant.format(&Rfc3339).ok())
}

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// No such item.
    #[error("no such item")]
    NotFound,
    /// Somebody edited it since.
    #[error("the item was edited since")]
    RevisionChanged,
    /// The new schedule ends before it starts.
    #[error("the sale must start before it ends")]
    InvalidSchedule,
    /// The sale has not that many units left to take out, or the total would be too large.
    #[error("the stock would be out of range")]
    StockOutOfRange,
    /// The database.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

const COLUMNS: &str = "items.id, name, description, image_url, price_cents, starts_at, ends_at, \
     per_buyer_limit, hold_seconds, strategy, kind, arbiter, paused, waiting_room, \
     EXISTS (SELECT 1 FROM redis_queues WHERE redis_queues.item_id = items.id) AS has_queue, \
     revision, total, available";

/// The most items that one list answers.
pub const LIST_MAX: u32 = 200;

/// Reads one item by its id.
///
/// # Errors
/// The database's.
pub async fn find(
    executor: impl MySqlExecutor<'_>,
    id: ItemId,
) -> sqlx::Result<Option<StockedItem>> {
    Ok(find_with_time(executor, id).await?.map(|(stocked, _)| stocked))
}

/// Reads one item, and what time it is by the database's clock.
///
/// # Errors
/// The database's.
pub async fn find_with_time(
    executor: impl MySqlExecutor<'_>,
    id: ItemId,
) -> sqlx::Result<Option<(StockedItem, OffsetDateTime)>> {
    let statement = format!(
        "SELECT {COLUMNS}, UTC_TIMESTAMP(6) AS ledger_now FROM items \
         JOIN stock ON item_id = items.id WHERE items.id = ?"
    );
    let row = answered(sqlx::query(&statement).bind(id.get()).fetch_optional(executor)).await?;
    row.map(|row| Ok((read(&row)?, row.try_get("ledger_now")?))).transpose()
}

/// Reads the sales of the shop that are not over for longer than a day, soonest end first, at
/// most [`LIST_MAX`].
///
/// # Errors
/// The database's.
pub async fn list_shop(pool: &MySqlPool, now: OffsetDateTime) -> sqlx::Result<Vec<StockedItem>> {
    let statement = format!(
        "SELECT {COLUMNS} FROM items JOIN stock ON item_id = items.id \
         WHERE kind = 'shop' AND ends_at > ? ORDER BY ends_at, items.id LIMIT {LIST_MAX}"
    );
    let since = now - time::Duration::DAY;
    let rows = answered(sqlx::query(&statement).bind(since).fetch_all(pool)).await?;
    rows.iter().map(read).collect()
}

/// Creates an item and its stock in one transaction and reads it back.
///
/// # Errors
/// The database's.
pub async fn create(
    pool: &MySqlPool,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<StockedItem> {
    let mut transaction = pool.begin().await?;
    let id = insert(&mut transaction, new, now).await?;
    // Read before the COMMIT: behind it, every error would look like one of the change.
    let created = find(&mut *transaction, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    transaction.commit().await?;
    Ok(created)
}

/// The same as the act of an operator, which is written down with it.
///
/// # Errors
/// The database's.
pub async fn create_by(
    pool: &MySqlPool,
    new: &NewItem,
    actor: &Actor,
) -> sqlx::Result<StockedItem> {
    let mut transaction = pool.begin().await?;
    let id = insert(&mut transaction, new, actor.now).await?;
    actions::record(&mut transaction, actor, "item_created", Some(id), &new.told()).await?;
    let created = find(&mut *transaction, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    transaction.commit().await?;
    Ok(created)
}

async fn insert(
    transaction: &mut sqlx::MySqlConnection,
    new: &NewItem,
    now: OffsetDateTime,
) -> sqlx::Result<ItemId> {
    let inserted = sqlx::query(
        "INSERT INTO items (name, description, image_url, price_cents, starts_at, ends_at, \
         per_buyer_limit, hold_seconds, strategy, kind, arbiter, waiting_room, created_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
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
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    let id = inserted.last_insert_id();
    sqlx::query("INSERT INTO stock (item_id, total, available) VALUES (?, ?, ?)")
        .bind(id)
        .bind(new.stock)
        .bind(new.stock)
        .execute(&mut *transaction)
        .await?;
    i64::try_from(id).ok().and_then(ItemId::new).ok_or(sqlx::Error::RowNotFound)
}

/// An item after an edit.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The item.
    pub item: StockedItem,
    /// The version of its stock that a restock made, if there was one.
    pub restocked: Option<u64>,
}

/// Edits an item in one transaction. A restock raises `total` and `available` together and is
/// written down as the act of the operator, and so is the edit.
///
/// # Errors
/// See [`EditError`]; nothing was changed then.
pub async fn edit(
    pool: &MySqlPool,
    id: ItemId,
    edit: &ItemEdit,
    actor: &Actor,
) -> Result<Edited, EditError> {
    // An error of ours passes through as an answer.
    let work = async {
        match edit_once(pool, id, edit, actor).await {
            Err(EditError::Database(error)) => Err(error),
            answer => Ok(answer),
        }
    };
    within(TRANSACTION_MAX, work).await.unwrap_or_else(|error| Err(EditError::Database(error)))
}

async fn edit_once(
    pool: &MySqlPool,
    id: ItemId,
    edit: &ItemEdit,
    actor: &Actor,
) -> Result<Edited, EditError> {
    let mut transaction = pool.begin().await?;
    let statement = format!(
        "SELECT {COLUMNS} FROM items JOIN stock ON item_id = items.id WHERE items.id = ? FOR UPDATE"
    );
    let row = sqlx::query(&statement).bind(id.get()).fetch_optional(&mut *transaction).await?;
    let before = row.as_ref().map(read).transpose()?.ok_or(EditError::NotFound)?;
    let item = &before.item;
    if edit.revision_seen.is_some_and(|seen| seen != item.revision) {
        return Err(EditError::RevisionChanged);
    }
    let window = SaleWindow::new(
        edit.starts_at.unwrap_or_else(|| item.window.starts_at()),
        edit.ends_at.unwrap_or_else(|| item.window.ends_at()),
    )
    .ok_or(EditError::InvalidSchedule)?;
    sqlx::query(
        "UPDATE items SET starts_at = ?, ends_at = ?, paused = ?, waiting_room = ?, \
         strategy = ?, revision = revision + 1 WHERE id = ?",
    )
    .bind(datetime(window.starts_at()))
    .bind(datetime(window.ends_at()))
    .bind(edit.paused.unwrap_or(item.paused))
    .bind(edit.waiting_room.unwrap_or(item.waiting_room))
    .bind(edit.strategy.as_deref().unwrap_or(&item.strategy))
    .bind(id.get())
    .execute(&mut *transaction)
    .await?;
    let mut restocked = None;
    if let Some(delta) = edit.stock_delta.filter(|&delta| delta != 0) {
        let total = before.total.checked_add(delta).unwrap_or(-1);
        if !(0..=Item::STOCK_MAX).contains(&total) || before.available.saturating_add(delta) < 0 {
            return Err(EditError::StockOutOfRange);
        }
        restocked = Some(restock(&mut transaction, id, delta, actor.user, actor.now).await?);
    }
    actions::record(&mut transaction, actor, "item_edited", Some(id), &edit.told()).await?;
    let item = find(&mut *transaction, id).await?.ok_or(EditError::NotFound)?;
    transaction.commit().await?;
    Ok(Edited { item, restocked })
}

/// Answers the version of the stock that it made.
async fn restock(
    transaction: &mut sqlx::MySqlConnection,
    id: ItemId,
    delta: i64,
    operator: UserId,
    now: OffsetDateTime,
) -> sqlx::Result<u64> {
    sqlx::query(
        "INSERT INTO restocks (id, item_id, delta, user_id, created_at) VALUES (?, ?, ?, ?, ?)",
    )
    .bind(OrderId::generate().to_string())
    .bind(id.get())
    .bind(delta)
    .bind(operator.get())
    .bind(now)
    .execute(&mut *transaction)
    .await?;
    let done = sqlx::query(
        "UPDATE stock SET total = total + ?, available = available + ?, \
         version = LAST_INSERT_ID(version + 1) WHERE item_id = ?",
    )
    .bind(delta)
    .bind(delta)
    .bind(id.get())
    .execute(&mut *transaction)
    .await?;
    Ok(done.last_insert_id())
}

/// A schedule's time as a DATETIME. An `OffsetDateTime` is sent as a TIMESTAMP, which MariaDB takes
/// for NULL after January 2038.
fn datetime(instant: OffsetDateTime) -> PrimitiveDateTime {
    let instant = instant.to_offset(UtcOffset::UTC);
    PrimitiveDateTime::new(instant.date(), instant.time())
}

fn read(row: &MySqlRow) -> sqlx::Result<StockedItem> {
    let window = SaleWindow::new(row.try_get("starts_at")?, row.try_get("ends_at")?);
    let item = Item {
        id: parsed("id", ItemId::new(row.try_get("id")?))?,
        name: row.try_get("name")?,
        description: row.try_get("description")?,
        image_url: row.try_get("image_url")?,
        price: parsed("price_cents", Cents::new(row.try_get("price_cents")?))?,
        window: parsed("starts_at", window)?,
        per_buyer_limit: row.try_get("per_buyer_limit")?,
        hold_seconds: row.try_get("hold_seconds")?,
        strategy: row.try_get("strategy")?,
        kind: parsed("kind", ItemKind::parse(row.try_get("kind")?))?,
        arbiter: parsed("arbiter", ArbiterMode::parse(row.try_get("arbiter")?))?,
        paused: row.try_get("paused")?,
        waiting_room: row.try_get("waiting_room")?,
        has_queue: row.try_get::<i64, _>("has_queue")? != 0,
        revision: row.try_get("revision")?,
    };
    let (total, available) = (row.try_get("total")?, row.try_get("available")?);
    Ok(StockedItem { item: Arc::new(item), total, available })
}

/// A column whose value does not parse is a damaged row, not a missing one.
pub(crate) fn parsed<T>(column: &str, value: Option<T>) -> sqlx::Result<T> {
    value.ok_or_else(|| sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: "the value is out of its range".into(),
    })
}
