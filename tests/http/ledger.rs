//! The ledger as a whole, to see that a refused request changed nothing of it.

use crate::support::prelude::*;

/// The rows of the ledger, as texts and counts.
const ROWS: [&str; 5] = [
    "GROUP_CONCAT(CONCAT_WS(':', id, revision, paused, strategy) ORDER BY id) FROM items",
    "GROUP_CONCAT(CONCAT_WS(':', item_id, total, available) ORDER BY item_id) FROM stock",
    "GROUP_CONCAT(CONCAT_WS(':', user_id, quantity, status) ORDER BY id) FROM orders",
    "COUNT(*) FROM stock_movements",
    "COUNT(*) FROM users",
];

/// What the ledger has, to compare before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger(Vec<Option<String>>);

impl Ledger {
    /// Reads it.
    pub async fn of(shop: &Shop) -> Self {
        let mut read: Vec<Option<String>> = Vec::new();
        for row in ROWS {
            let (value, table) = row.rsplit_once(" FROM ").expect("a table");
            let statement = format!("SELECT CAST({value} AS CHAR) FROM {table}");
            read.push(shop.read(sqlx::query_scalar(&statement)).await);
        }
        Self(read)
    }
}

/// Requests that must be refused, each with what it is, and the status and the code of its answer.
#[derive(Default)]
pub struct Refused(Vec<(String, RequestBuilder, (u16, &'static str))>);

impl Refused {
    pub fn add(
        &mut self,
        what: impl Into<String>,
        request: RequestBuilder,
        expected: (u16, &'static str),
    ) {
        self.0.push((what.into(), request, expected));
    }
}

/// Sends the requests one after the other: each is answered as expected and changes nothing.
pub async fn assert_refused(shop: &Shop, cases: Refused) {
    let before = Ledger::of(shop).await;
    for (what, request, expected) in cases.0 {
        let answer = Client::send(request).await;
        assert_problem(&answer, expected, &what);
        assert_eq!(answer.json["outcome"], "none", "{what}");
        assert_eq!(Ledger::of(shop).await, before, "{what}: the ledger changed");
    }
}
