//! The ledger as a whole, to see that a refused request changed nothing of it.

use crate::support::prelude::*;

/// The rows of the ledger, to compare before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    items: String,
    stock: String,
    orders: String,
    movements: i64,
    users: i64,
}

impl Ledger {
    /// Reads it.
    pub async fn of(shop: &Shop) -> Self {
        let text = |statement: &'static str| async move {
            let found: Option<String> = shop.read(sqlx::query_scalar(statement)).await;
            found.unwrap_or_default()
        };
        let count =
            |statement: &'static str| async move { shop.read(sqlx::query_scalar(statement)).await };
        Self {
            items: text(
                "SELECT CAST(GROUP_CONCAT(CONCAT_WS(':', id, revision, paused, strategy) ORDER BY id) AS CHAR) \
                 FROM items",
            )
            .await,
            stock: text(
                "SELECT CAST(GROUP_CONCAT(CONCAT_WS(':', item_id, total, available) ORDER BY item_id) AS CHAR) \
                 FROM stock",
            )
            .await,
            orders: text(
                "SELECT CAST(GROUP_CONCAT(CONCAT_WS(':', user_id, quantity, status) ORDER BY id) AS CHAR) \
                 FROM orders",
            )
            .await,
            movements: count("SELECT COUNT(*) FROM stock_movements").await,
            users: count("SELECT COUNT(*) FROM users").await,
        }
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
