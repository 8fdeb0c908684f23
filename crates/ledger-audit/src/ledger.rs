//! One item as the database has it: the rows that the audit reads.

/// One item's ledger, read in one consistent snapshot.
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
    pub total: i64,
    pub available: i64,
}

/// One row of `orders`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub id: String,
    pub buyer: i64,
    pub quantity: i64,
    pub status: String,
    pub key: Option<String>,
    /// The fence of the lock under which it was written; `None` where there was none.
    pub fence: Option<Fence>,
}

/// A fence as an order has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub number: u64,
    /// The counter that it comes from: fences of two counters cannot be compared.
    pub backend: Option<String>,
    /// The number of the write among those under this counter, by the ledger's own count. 0 where it
    /// was written before the ledger counted, `None` where nothing compared it.
    pub sequence: Option<u64>,
}

/// All movements of one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movements {
    pub reason: String,
    pub count: i64,
    /// Their sum: negative when stock was taken.
    pub units: i64,
}

impl Order {
    /// The key for messages.
    pub fn key_shown(&self) -> &str {
        self.key.as_deref().unwrap_or("(none)")
    }

    /// Whether it holds stock now.
    pub fn is_live(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "paid")
    }

    /// Whether it has ever taken stock.
    pub fn took_stock(&self) -> bool {
        self.is_live() || matches!(self.status.as_str(), "cancelled" | "expired")
    }
}
