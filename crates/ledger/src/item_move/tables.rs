//! The tables of a ledger: which have rows of an item, and how these are found.
//!
//! Copying, comparing and deleting an item go by this list alone. A test compares it with the schema,
//! so a migration that adds a table fails until the table is listed here.

/// What a move does with the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPolicy {
    /// Copied, compared, and deleted at the source.
    Moved,
    /// Like `Moved`, but not compared: instances renew the rows until the moment of the flip, and a
    /// row too many or too few does no harm.
    Approximate,
    /// Copied unless the target has it, and never deleted: other items use it too.
    Shared,
}

/// A table with rows of items.
#[derive(Clone, Copy, Debug)]
pub struct ItemTable {
    pub name: &'static str,
    /// The condition for the rows of one item, whose id is its one parameter.
    pub of_item: &'static str,
    /// What a move does with the rows.
    pub fate: RowPolicy,
}

const fn table(name: &'static str, of_item: &'static str, fate: RowPolicy) -> ItemTable {
    ItemTable { name, of_item, fate }
}

/// The tables with rows of items, in the order of copying. Rows are deleted in the opposite order, so
/// that a table by which the rows of another one are found comes before it here. The stock row is the
/// first: it fences the copying and the deletion, and is the last to go.
pub const ITEM_TABLES: &[ItemTable] = &[
    table("stock", BY_ITEM, RowPolicy::Moved),
    table("items", "id = ?", RowPolicy::Moved),
    table("products", "id IN (SELECT product_id FROM items WHERE items.id = ?)", RowPolicy::Shared),
    table("limit_group_items", BY_ITEM, RowPolicy::Moved),
    table(
        "limit_groups",
        "id IN (SELECT group_id FROM limit_group_items WHERE item_id = ?)",
        RowPolicy::Shared,
    ),
    table("group_limits", BY_GROUP, RowPolicy::Moved),
    table("orders", BY_ITEM, RowPolicy::Moved),
    table("payments", "order_id IN (SELECT id FROM orders WHERE item_id = ?)", RowPolicy::Moved),
    table(
        "payment_refunds",
        "payment_id IN (SELECT payments.id FROM payments JOIN orders ON orders.id = payments.order_id \
         WHERE orders.item_id = ?)",
        RowPolicy::Moved,
    ),
    table("stock_movements", BY_ITEM, RowPolicy::Moved),
    table("buyer_limits", BY_ITEM, RowPolicy::Moved),
    table("restocks", BY_ITEM, RowPolicy::Moved),
    table("unit_rows", BY_ITEM, RowPolicy::Moved),
    table("fences", BY_ITEM, RowPolicy::Moved),
    table("waiting_list", BY_ITEM, RowPolicy::Moved),
    table("draws", BY_ITEM, RowPolicy::Moved),
    table("draw_entries", BY_ITEM, RowPolicy::Moved),
    table("redis_queues", BY_ITEM, RowPolicy::Approximate),
    table("running_requests", BY_ITEM, RowPolicy::Approximate),
    // The counters in Redis stay good: the stock row moves with its version. Without these rows the
    // reconciliation would pass them by.
    table("redis_counters", BY_ITEM, RowPolicy::Approximate),
    table("redis_buckets", BY_ITEM, RowPolicy::Approximate),
];

const BY_ITEM: &str = "item_id = ?";
const BY_GROUP: &str = "group_id IN (SELECT group_id FROM limit_group_items WHERE item_id = ?)";

/// The tables whose rows stay where they are, with the reason.
pub const OTHER_TABLES: &[(&str, &str)] = &[
    ("_sqlx_migrations", "each ledger has its own schema"),
    ("schema_needs", "each ledger has its own schema"),
    ("users", "in the home ledger alone"),
    ("subjects", "in the home ledger alone"),
    ("revoked_sessions", "in the home ledger alone"),
    ("session_generations", "in the home ledger alone"),
    ("sign_in_failures", "in the home ledger alone"),
    ("item_homes", "in the home ledger alone"),
    ("item_moves", "in the home ledger alone"),
    ("kept_rows", "what an item left behind stays in the ledger that it left"),
    ("locks", "names of locks, not of items; fences of later holders are higher everywhere"),
    ("admin_actions", "append-only: what an operator did is read from all ledgers together"),
    ("outbox", "events leave from the ledger in which they happened"),
    ("event_log", "events leave from the ledger in which they happened"),
    ("event_relay", "events leave from the ledger in which they happened"),
    ("event_endpoints", "events leave from the ledger in which they happened"),
    ("event_dead_letters", "events leave from the ledger in which they happened"),
    ("event_replays", "events leave from the ledger in which they happened"),
    ("shop_currency", "each ledger has its own row, and all have one currency"),
    ("order_lines", "a view of the orders, which has no rows of its own"),
    ("payment_messages", "a payment that moved is known by its own row"),
];
