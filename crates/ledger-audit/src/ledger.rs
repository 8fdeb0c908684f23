//! One item as the database has it: the rows that the audit reads.

use std::collections::HashMap;

/// One item's rows, read in one consistent snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Whether `items` has the item.
    pub item_exists: bool,
    /// The stock row; `None` when there is none.
    pub stock: Option<Stock>,
    /// Every order of the item.
    pub orders: Vec<Order>,
    /// Every movement of its stock.
    pub movements: Vec<Movement>,
    /// The buyers who wait for units that come back.
    pub line: Line,
    /// The limit that the item shares with others; `None` when it shares none.
    pub group: Option<Group>,
    /// Every restock of the item.
    pub restocks: Vec<Restock>,
    /// All lines, of whichever item, of the orders of several items that have a line of this one.
    pub lines: Vec<OrderLine>,
    /// The draw of the item, once each entry should have its place.
    pub draw: Option<Draw>,
    /// Orders of the item whose amount is not the price of their units.
    pub mispriced: Vec<Mispriced>,
}

/// A line of an order of several items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderLine {
    /// The order's id, which all its lines have in common.
    pub order: String,
    /// `orders.id`, of which only the last byte is the line's own.
    pub id: String,
    pub item: i64,
    pub buyer: i64,
    pub status: String,
    /// How many lines the order has, as this line says; `None`: the line says that it is a single purchase.
    pub count: Option<i64>,
    /// Whether its units were taken from the stock.
    pub is_sold: bool,
}

/// An order, or a line of one, whose amount is not the price of its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mispriced {
    /// `orders.id`.
    pub id: String,
    /// `orders.amount_cents`.
    pub amount: i64,
    /// The price of its units, which may be too large for an integer.
    pub price: String,
}

/// A draw that is over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draw {
    /// The proof, as the shop publishes it.
    pub proof: String,
    /// Place and buyer of each entry, in the order of places.
    pub entries: Vec<(u64, i64)>,
    /// When each order of the item was made, in microseconds since 1970.
    pub ordered_at: HashMap<String, i64>,
}

/// One row of `restocks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restock {
    /// `restocks.id`.
    pub id: String,
    /// Units: negative when an operator took them out of the sale.
    pub units: i64,
}

/// The waiting list of an item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// `stock.offered`: units that open offers hold.
    pub offered: i64,
    /// Every place there ever was, by its number.
    pub places: Vec<Place>,
}

/// One row of `waiting_list`. Times are in microseconds since 1970, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// `waiting_list.place`: the smaller one is served first.
    pub number: i64,
    /// `waiting_list.user_id`.
    pub buyer: i64,
    /// `waiting`, `offered`, `accepted`, `lapsed`, `left` or `ended`.
    pub status: String,
    /// When the buyer joined.
    pub joined_at: i64,
    /// When a unit was offered.
    pub offered_at: Option<i64>,
    /// When the place was closed.
    pub closed_at: Option<i64>,
    /// The order that the offer became.
    pub order_id: Option<String>,
    /// The friends who are offered units together, or not at all.
    pub party: Option<String>,
}

/// A limit that several items share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// Units of all items together that one buyer may have.
    pub limit: i64,
    /// Buyers with more than that, and their units.
    pub over: Vec<(i64, i64)>,
}

/// The stock row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock {
    /// Units that were ever put on sale.
    pub total: i64,
    /// Units left.
    pub available: i64,
}

/// One row of `orders`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The order's id: `orders.id`, or for a line of an order of several items that of the first line.
    pub id: String,
    /// `orders.user_id`.
    pub buyer: i64,
    /// Units.
    pub quantity: i64,
    /// `queued`, `rejected`, `pending`, `paid`, `cancelled` or `expired`.
    pub status: String,
    /// The Idempotency-Key of the purchase (`orders.request_key`).
    pub key: Option<String>,
    /// The fencing token of the lock under which it was written; `None` without a fenced lock.
    pub fence: Option<Fence>,
}

/// A fencing token as an order carries it: see Kleppmann, "How to do distributed locking" (2016).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The token. A later holder of the lock has a higher one.
    pub number: u64,
    /// The counter that issued it: tokens of two counters cannot be compared.
    pub backend: Option<String>,
    /// The number of this write among those under this counter, counted by the ledger; `None` where the
    /// ledger did not compare the token.
    pub sequence: Option<u64>,
}

/// One row of `stock_movements`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    /// The order that it is of, as [`Order::id`].
    pub order: String,
    /// `sold`, `cancelled`, `expired` or `late_payment`.
    pub reason: String,
    /// Units: negative when stock was taken.
    pub units: i64,
}

impl Order {
    /// The key, as messages show it.
    pub(crate) fn key_shown(&self) -> &str {
        self.key.as_deref().unwrap_or("(none)")
    }

    /// Whether its units are sold or held now.
    pub fn is_live(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "paid")
    }

    /// Whether its units were ever taken from the stock.
    pub fn took_stock(&self) -> bool {
        self.is_live() || matches!(self.status.as_str(), "cancelled" | "expired")
    }
}
