//! What clients saw of orders and stock beside the purchases, by the clock of the record.

use serde::Serialize;

/// The status of an order that a client asked for and was told not to exist.
pub const MISSING: &str = "missing";

/// What readers, payers, cancelling buyers and operators saw while a load ran. All times are
/// microseconds on the clock of [`Answer::answered_at_us`](crate::Answer::answered_at_us): that of
/// the client, and of one process.
#[derive(Debug, Clone, Default, Serialize)]
pub struct History {
    /// Every sight of one order.
    pub orders: Vec<SeenOrder>,
    /// Every sight of a buyer's list.
    pub lists: Vec<SeenList>,
    /// Every restock that was sent.
    pub restocks: Vec<SentRestock>,
}

/// One order, as an answer showed it.
#[derive(Debug, Clone, Serialize)]
pub struct SeenOrder {
    /// The order's id.
    pub id: String,
    /// Its status, or [`MISSING`].
    pub status: String,
    /// When the request was sent.
    pub sent_at_us: u64,
    /// When its answer was there.
    pub answered_at_us: u64,
}

/// The newest orders of a buyer, as an answer showed them.
#[derive(Debug, Clone, Serialize)]
pub struct SeenList {
    /// The buyer's id.
    pub buyer: i64,
    /// The ids of the orders in it.
    pub orders: Vec<String>,
    /// Where the list was cut off: orders with lower ids are on later pages. `None`: it is whole.
    pub back_to: Option<String>,
    /// When the request was sent.
    pub sent_at_us: u64,
    /// When its answer was there.
    pub answered_at_us: u64,
}

/// A restock that was sent, in either direction.
#[derive(Debug, Clone, Serialize)]
pub struct SentRestock {
    /// Units: negative when they were taken out of the sale.
    pub units: i64,
    /// When the request was sent.
    pub sent_at_us: u64,
    /// When it was answered with success; `None` if it was not.
    pub accepted_at_us: Option<u64>,
}

impl History {
    /// Adds what another client saw.
    pub fn extend(&mut self, other: Self) {
        self.orders.extend(other.orders);
        self.lists.extend(other.lists);
        self.restocks.extend(other.restocks);
    }

    /// Counts the times from `by_us` later on: the clocks of two recorders started at two moments.
    pub fn shift(&mut self, by_us: u64) {
        let earlier = |at_us: &mut u64| *at_us = at_us.saturating_sub(by_us);
        for seen in &mut self.orders {
            earlier(&mut seen.sent_at_us);
            earlier(&mut seen.answered_at_us);
        }
        for seen in &mut self.lists {
            earlier(&mut seen.sent_at_us);
            earlier(&mut seen.answered_at_us);
        }
        for sent in &mut self.restocks {
            earlier(&mut sent.sent_at_us);
            sent.accepted_at_us.as_mut().map(earlier);
        }
    }
}
