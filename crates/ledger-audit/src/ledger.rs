//! One item as the database has it: the rows that the audit reads.

/// One item's rows, read in one consistent snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Whether `items` has the item.
    pub item_exists: bool,
    /// The stock row; `None` when there is none.
    pub stock: Option<Stock>,
    /// Every order of the item.
    pub orders: Vec<Order>,
    /// The movements, summed by reason.
    pub movements: Vec<Movements>,
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
    /// `orders.id`.
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
    /// The number of this write among those under this counter, counted by the ledger. 0 for a write
    /// from before the ledger counted; `None` where the ledger did not compare the token.
    pub sequence: Option<u64>,
}

/// All stock movements of one reason, summed up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movements {
    /// `sold`, `cancelled`, `expired` or `late_payment`.
    pub reason: String,
    /// Rows.
    pub count: i64,
    /// Their sum: negative when stock was taken.
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
