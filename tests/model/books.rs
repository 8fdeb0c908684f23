//! The model: one item, its stock and its orders, in plain arithmetic.

use super::plan::{Buy, Sale};

/// How long an unpaid order keeps its stock.
pub const HOLD_MINUTES: i64 = 10;

/// One item.
#[derive(Clone, Debug)]
pub struct Books {
    pub sale: Sale,
    pub total: i64,
    pub available: i64,
    pub paused: bool,
    /// Minutes since the item was made.
    pub now: i64,
    pub orders: Vec<Entry>,
}

/// One order.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: String,
    pub buyer: i64,
    pub key: Option<u8>,
    pub quantity: i64,
    pub status: &'static str,
    pub placed_at: i64,
}

/// The permitted outcome of a purchase.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpectedPurchase {
    /// A new order, and nothing else.
    Sells,
    /// The order that the key became.
    Replays(usize),
    /// One of these codes.
    Refuses(Vec<&'static str>),
}

/// The permitted answer to a step of an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The order, in this state.
    Order(&'static str),
    /// One of these codes.
    Refused(Vec<&'static str>),
}

impl Books {
    pub fn new(sale: Sale) -> Self {
        let stock = sale.stock;
        Self { sale, total: stock, available: stock, paused: false, now: 0, orders: Vec::new() }
    }

    /// The expected answer to a purchase, by the recorded state.
    pub fn expected_purchase(&self, buy: &Buy) -> ExpectedPurchase {
        let same_key = |entry: &Entry| entry.buyer == buy.buyer && entry.key == buy.key;
        if let Some(at) = buy.key.and_then(|_| self.orders.iter().position(same_key)) {
            return if self.orders[at].quantity == buy.quantity {
                ExpectedPurchase::Replays(at)
            } else {
                ExpectedPurchase::Refuses(vec!["idempotency_key_reused"])
            };
        }
        let refuse = |code| ExpectedPurchase::Refuses(vec![code]);
        if self.now < self.sale.starts_at {
            return refuse("sale_not_started");
        }
        if self.now >= self.sale.ends_at {
            return refuse("sale_ended");
        }
        if self.paused {
            return refuse("sale_paused");
        }
        if buy.quantity > self.sale.limit {
            return refuse("quantity_over_limit");
        }
        match self.refusals(buy.buyer, buy.quantity) {
            none if none.is_empty() => ExpectedPurchase::Sells,
            codes => ExpectedPurchase::Refuses(codes),
        }
    }

    /// The possible refusals of a purchase of `quantity` units. When there are several, a gate may answer
    /// any of them.
    fn refusals(&self, buyer: i64, quantity: i64) -> Vec<&'static str> {
        let over = self.bought(buyer) + quantity > self.sale.limit;
        let short = self.available < quantity;
        [(over, "limit_reached"), (short, "sold_out")]
            .into_iter()
            .filter_map(|(holds, code)| holds.then_some(code))
            .collect()
    }

    fn bought(&self, buyer: i64) -> i64 {
        let held = self.orders.iter().filter(|entry| entry.buyer == buyer && entry.holds());
        held.map(|entry| entry.quantity).sum()
    }

    /// Enters an order: sold, or refused by the ledger after it was queued.
    pub fn enter(&mut self, buy: &Buy, id: String, status: &'static str) {
        let Buy { buyer, key, quantity, .. } = *buy;
        let entry = Entry { id, buyer, key, quantity, status, placed_at: self.now };
        if entry.holds() {
            self.available -= quantity;
        }
        self.orders.push(entry);
    }

    pub fn pay(&mut self, at: usize) -> Answer {
        let Entry { status, buyer, quantity, .. } = self.orders[at];
        match status {
            "pending" | "paid" => {}
            "expired" => match self.refusals(buyer, quantity) {
                none if none.is_empty() => self.available -= quantity,
                codes => return Answer::Refused(codes),
            },
            _ => return Answer::Refused(vec!["order_state_conflict"]),
        }
        self.orders[at].status = "paid";
        Answer::Order("paid")
    }

    pub fn cancel(&mut self, at: usize) -> Answer {
        match self.orders[at].status {
            "pending" => self.available += self.orders[at].quantity,
            "cancelled" => {}
            _ => return Answer::Refused(vec!["order_state_conflict"]),
        }
        self.orders[at].status = "cancelled";
        Answer::Order("cancelled")
    }

    pub fn restock(&mut self, delta: i64) -> Answer {
        if self.available + delta < 0 {
            return Answer::Refused(vec!["stock_below_sold"]);
        }
        self.total += delta;
        self.available += delta;
        Answer::Order("")
    }

    /// Time passes; holds run out.
    pub fn pass(&mut self, minutes: i64) {
        self.now += minutes;
        for entry in &mut self.orders {
            if entry.status == "pending" && entry.placed_at + HOLD_MINUTES <= self.now {
                entry.status = "expired";
                self.available += entry.quantity;
            }
        }
    }
}

impl Entry {
    fn holds(&self) -> bool {
        matches!(self.status, "pending" | "paid")
    }
}
