//! An item of a trial, with its buyers and its counts.

use loadtest::drive::message;
use loadtest::drive::readers::AcceptedOrders;
use loadtest::service::purchase_path;

use crate::prelude::*;

/// One item, sold by one strategy.
pub struct SaleItem {
    /// The strategy, perhaps with a query.
    pub strategy: String,
    pub id: i64,
    /// The other items of each of its orders.
    pub further: Vec<i64>,
    pub stock: i64,
    /// Whether the strategy is known to oversell and runs without the arbiter: the audit must catch it.
    pub control: bool,
    /// The tokens of its buyers, by purchase; more purchases than the stock.
    pub tokens: Vec<(i64, String)>,
    /// Its orders in the ledger, with the numbers of their purchases, for readers.
    pub accepted: AcceptedOrders,
    pub counts: Counts,
}

/// What is counted while it is sold.
#[derive(Default)]
pub struct Counts {
    pub attempts: AtomicU64,
    /// Microseconds from the start to the first purchase that was sold after the fault; 0: none.
    pub sold_again_us: AtomicU64,
    pub sold: AtomicU64,
}

impl SaleItem {
    /// Requests that were sent.
    pub fn attempts(&self) -> u64 {
        self.counts.attempts.load(Ordering::Relaxed)
    }

    /// Purchases that were accepted.
    pub fn sold(&self) -> u64 {
        self.counts.sold.load(Ordering::Relaxed)
    }

    /// A request of its purchases.
    pub fn request(&self, token: &str, key: &str) -> Vec<u8> {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("host", "localhost"),
            ("authorization", bearer.as_str()),
            ("idempotency-key", key),
        ];
        if self.further.is_empty() {
            let path = purchase_path(&self.strategy, self.id).expect("the name of a strategy");
            return message::render("POST", &path, &headers, b"");
        }
        headers.push(("content-type", "application/json"));
        let items = std::iter::once(&self.id).chain(&self.further);
        let lines: Vec<Value> = items.map(|item| json!({ "item_id": item })).collect();
        let body = json!({ "lines": lines }).to_string();
        message::render("POST", "/api/reservations", &headers, body.as_bytes())
    }
}
