//! The transactional outbox: each transaction that changes orders writes one row with the changes,
//! so that an event exists exactly if its change is durable.
//!
//! The row has the columns that Debezium's outbox event router reads. All changes of the ledger have
//! one key (`aggregateid`), since the order of one row among the others matters: an order is sold
//! in a row with 255 others, and paid in a row of its own. A relay takes the rows out again.

use std::collections::BTreeMap;

use serde::Serialize;
use sqlx::MySqlConnection;
use time::OffsetDateTime;

use mysql_connection::statement::{Binds, Write};
use shop_domain::{Order, OrderId, OrderStatus, Purchase};

/// Writes events into the outbox, or nothing where events are switched off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outbox {
    enabled: bool,
}

/// The type of the rows about orders.
const ORDERS_CHANGED: &str = "orders.changed";
/// The type of the rows about offers to buyers who wait.
const OFFERS_CHANGED: &str = "offers.changed";
/// All types.
pub const EVENT_TYPES: [&str; 2] = [ORDERS_CHANGED, OFFERS_CHANGED];

/// A row of the outbox that is not written yet.
#[derive(Debug)]
pub struct NewEvent {
    pub id: OrderId,
    /// Its type.
    pub kind: &'static str,
    /// The changes, as JSON.
    pub payload: String,
    /// The first item that they are about. On a ledger in shards the row lies beside it.
    item: i64,
}

/// An order after its change. Each byte is written twice for each order, so there are few: the time of
/// the change is that of the event.
#[derive(Serialize)]
struct Change {
    id: String,
    item_id: i64,
    user_id: i64,
    quantity: u32,
    /// The price of all lines.
    amount_cents: i64,
    /// The currency of all lines.
    currency: &'static str,
    status: &'static str,
    /// The end of a hold that was extended.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    expires_at: Option<OffsetDateTime>,
    /// All lines of an order with several; the fields above have those of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<ChangedLine>,
}

/// A line of an order.
#[derive(Serialize)]
struct ChangedLine {
    item_id: i64,
    quantity: u32,
    amount_cents: i64,
}

/// An offer to a buyer who waits, after its change.
#[derive(Clone, Debug, Serialize)]
pub struct OfferChange {
    pub place: i64,
    pub item_id: i64,
    pub user_id: i64,
    pub status: &'static str,
}

impl Outbox {
    /// An outbox that is written if `enabled`.
    pub fn new(enabled: bool) -> Self {
        Self { enabled }
    }

    /// Returns whether rows are written.
    pub fn is_enabled(self) -> bool {
        self.enabled
    }

    /// Writes one row for the orders that the transaction inserts with `status`; the lines of an order stand
    /// behind each other.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    pub async fn inserted(
        self,
        transaction: &mut MySqlConnection,
        purchases: &[&Purchase],
        status: OrderStatus,
    ) -> sqlx::Result<()> {
        match self.event_of(purchases, status)? {
            Some(event) => insert(transaction, event).await,
            None => Ok(()),
        }
    }

    /// The row for the orders that a transaction inserts with `status`, for a caller that writes it;
    /// `None` where events are switched off.
    ///
    /// # Errors
    /// Never, unless a number cannot be written as JSON.
    pub fn event_of(
        self,
        purchases: &[&Purchase],
        status: OrderStatus,
    ) -> sqlx::Result<Option<NewEvent>> {
        if !self.enabled || purchases.is_empty() {
            return Ok(None);
        }
        let mut orders: Vec<Order> = Vec::with_capacity(purchases.len());
        for purchase in purchases {
            let line = purchase.order(status, None);
            match orders.last_mut().filter(|_| line.is_further_line()) {
                Some(order) => order.further.push(line),
                None => orders.push(line),
            }
        }
        NewEvent::of_orders(&orders).map(Some)
    }

    /// Writes one row for the orders that the transaction changes; `orders` are as they are after
    /// the change.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    pub async fn changed(
        self,
        transaction: &mut MySqlConnection,
        orders: &[Order],
    ) -> sqlx::Result<()> {
        if !self.enabled || orders.is_empty() {
            return Ok(());
        }
        insert(transaction, NewEvent::of_orders(orders)?).await
    }

    /// Writes one row for the offers that the transaction changes.
    ///
    /// # Errors
    /// The database's; the caller rolls back.
    pub async fn offers(
        self,
        transaction: &mut MySqlConnection,
        offers: Vec<OfferChange>,
    ) -> sqlx::Result<()> {
        let Some(first) = offers.first().filter(|_| self.enabled) else { return Ok(()) };
        let item = first.item_id;
        insert(transaction, NewEvent::of(OFFERS_CHANGED, "offers", &offers, item)?).await
    }
}

impl Change {
    fn of(order: &Order) -> Self {
        let line = |line: &Order| ChangedLine {
            item_id: line.item_id.get(),
            quantity: line.quantity.units(),
            amount_cents: line.amount.cents(),
        };
        let is_extended = order.extended_seconds.is_some() && order.status == OrderStatus::Pending;
        let has_lines = order.line_count.is_some();
        let lines = if has_lines { order.lines().map(line).collect() } else { Vec::new() };
        Self {
            id: order.id.to_string(),
            item_id: order.item_id.get(),
            user_id: order.user_id.get(),
            quantity: order.quantity.units(),
            amount_cents: order.whole_amount().cents(),
            currency: order.currency.as_str(),
            status: order.status.as_str(),
            expires_at: is_extended.then_some(order.expires_at),
            lines,
        }
    }
}

impl NewEvent {
    /// An event of orders that were changed together, which lie where the first one's item lies.
    fn of_orders(orders: &[Order]) -> sqlx::Result<Self> {
        let changes: Vec<Change> = orders.iter().map(Change::of).collect();
        let item = orders.first().map_or(0, |first| first.item_id.get());
        Self::of(ORDERS_CHANGED, "orders", &changes, item)
    }

    fn of(
        kind: &'static str,
        what: &str,
        changes: &[impl Serialize],
        item: i64,
    ) -> sqlx::Result<Self> {
        let payload = BTreeMap::from([(what, changes)]);
        let payload = serde_json::to_string(&payload)
            .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        Ok(Self { id: OrderId::generate(), kind, payload, item })
    }
}

async fn insert(transaction: &mut MySqlConnection, event: NewEvent) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, created_at, item_id) \
         VALUES (?, 'orders', 'ledger', ?, ?, UTC_TIMESTAMP(6), ?)",
    )
    .binds((event.id.to_string(), event.kind, event.payload, event.item))
    .run(transaction)
    .await
}
