//! The model: one item, its stock, its orders and its waiting list, in plain arithmetic; and of its
//! twin, which shares a limit with it, the units of each buyer.

use super::plan::{Buy, Sale};

/// How long an unpaid order keeps its stock.
pub const HOLD_MINUTES: i64 = 10;

/// How long an offer holds a unit.
pub const OFFER_MINUTES: i64 = 5;

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
    /// Everybody who ever waited, in the order of joining.
    pub line: Vec<Waiter>,
    /// Orders of the twin: buyer, units, id.
    pub twin: Vec<(i64, i64, String)>,
}

/// One place in the line.
#[derive(Clone, Debug)]
pub struct Waiter {
    pub buyer: i64,
    pub status: &'static str,
    pub offered_at: i64,
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
        Self {
            sale,
            total: stock,
            available: stock,
            paused: false,
            now: 0,
            orders: Vec::new(),
            line: Vec::new(),
            twin: Vec::new(),
        }
    }

    /// What is wrong with the sale at this moment, if anything.
    fn closed(&self) -> Option<&'static str> {
        if self.now < self.sale.starts_at {
            Some("sale_not_started")
        } else if self.now >= self.sale.ends_at {
            Some("sale_ended")
        } else if self.paused {
            Some("sale_paused")
        } else {
            None
        }
    }

    /// The status of a buyer's last place.
    pub fn place(&self, buyer: i64) -> &'static str {
        let last = self.line.iter().rev().find(|waiter| waiter.buyer == buyer);
        last.map_or("none", |waiter| waiter.status)
    }

    /// Offers available units to the first in the line.
    fn hand_out(&mut self) {
        if self.closed().is_some() {
            return;
        }
        for waiter in self.line.iter_mut().filter(|waiter| waiter.status == "waiting") {
            if self.available <= 0 {
                return;
            }
            self.available -= 1;
            (waiter.status, waiter.offered_at) = ("offered", self.now);
        }
    }

    fn end_line(&mut self) {
        for waiter in &mut self.line {
            self.available += i64::from(waiter.status == "offered");
            if ["waiting", "offered"].contains(&waiter.status) {
                waiter.status = "ended";
            }
        }
    }

    pub fn join(&mut self, buyer: i64) -> Answer {
        if let Some(code) = self.closed() {
            return Answer::Refused(vec![code]);
        }
        let place = self.place(buyer);
        if ["waiting", "offered"].contains(&place) {
            return Answer::Order(place);
        }
        if self.available > 0 {
            return Answer::Refused(vec!["units_left"]);
        }
        match self.over_limits(buyer, 1) {
            none if none.is_empty() => {}
            codes => return Answer::Refused(codes),
        }
        self.line.push(Waiter { buyer, status: "waiting", offered_at: 0 });
        Answer::Order("waiting")
    }

    pub fn leave(&mut self, buyer: i64) {
        let live = |waiter: &&mut Waiter| {
            waiter.buyer == buyer && ["waiting", "offered"].contains(&waiter.status)
        };
        let Some(waiter) = self.line.iter_mut().find(live) else { return };
        self.available += i64::from(waiter.status == "offered");
        waiter.status = "left";
        self.hand_out();
    }

    /// The expected answer to the purchase of an offered unit.
    pub fn expected_acceptance(&self, buyer: i64, key: Option<u8>) -> ExpectedPurchase {
        let same_key = |entry: &Entry| entry.buyer == buyer && entry.key == key;
        if let Some(at) = key.and_then(|_| self.orders.iter().position(same_key)) {
            return if self.orders[at].quantity == 1 {
                ExpectedPurchase::Replays(at)
            } else {
                ExpectedPurchase::Refuses(vec!["idempotency_key_reused"])
            };
        }
        if let Some(code) = self.closed() {
            return ExpectedPurchase::Refuses(vec![code]);
        }
        let mut codes = self.over_limits(buyer, 1);
        if self.place(buyer) != "offered" {
            codes.push("no_offer");
        }
        if codes.is_empty() { ExpectedPurchase::Sells } else { ExpectedPurchase::Refuses(codes) }
    }

    /// Enters the order of an accepted offer.
    pub fn accept(&mut self, buyer: i64, key: Option<u8>, id: String) {
        let status = "pending";
        self.orders.push(Entry { id, buyer, key, quantity: 1, status, placed_at: self.now });
        let open = |waiter: &&mut Waiter| waiter.buyer == buyer && waiter.status == "offered";
        if let Some(waiter) = self.line.iter_mut().find(open) {
            waiter.status = "accepted";
        }
    }

    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
        if paused {
            self.end_line();
        }
        self.hand_out();
    }

    /// The codes with which a purchase of the twin is refused.
    pub fn refusals_of_twin(&self, buyer: i64, units: i64) -> Vec<&'static str> {
        let is_over = self.over_group(buyer, units);
        if is_over { vec!["group_limit_reached"] } else { Vec::new() }
    }

    fn over_group(&self, buyer: i64, units: i64) -> bool {
        let twin = self.twin.iter().filter(|order| order.0 == buyer).map(|order| order.1);
        let counted = self.bought(buyer) + twin.sum::<i64>() + units;
        self.sale.group_limit.is_some_and(|limit| counted > limit)
    }

    fn over_limits(&self, buyer: i64, units: i64) -> Vec<&'static str> {
        let over = self.bought(buyer) + units > self.sale.limit;
        [(over, "limit_reached"), (self.over_group(buyer, units), "group_limit_reached")]
            .into_iter()
            .filter_map(|(holds, code)| holds.then_some(code))
            .collect()
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
        if let Some(code) = self.closed() {
            return refuse(code);
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
        let mut codes = self.over_limits(buyer, quantity);
        if self.available < quantity {
            codes.push("sold_out");
        }
        codes
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
                // A payment says "limit reached" of either limit.
                codes => {
                    let same =
                        |code| if code == "group_limit_reached" { "limit_reached" } else { code };
                    return Answer::Refused(codes.into_iter().map(same).collect());
                }
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
        self.hand_out();
        Answer::Order("cancelled")
    }

    pub fn restock(&mut self, delta: i64) -> Answer {
        if self.available + delta < 0 {
            return Answer::Refused(vec!["stock_below_sold"]);
        }
        self.total += delta;
        self.available += delta;
        self.hand_out();
        Answer::Order("")
    }

    /// Time passes; holds run out, and offers.
    pub fn pass(&mut self, minutes: i64) {
        self.now += minutes;
        for entry in &mut self.orders {
            if entry.status == "pending" && entry.placed_at + HOLD_MINUTES <= self.now {
                entry.status = "expired";
                self.available += entry.quantity;
            }
        }
        if self.now >= self.sale.ends_at {
            self.end_line();
        }
        for waiter in &mut self.line {
            if waiter.status == "offered" && waiter.offered_at + OFFER_MINUTES <= self.now {
                waiter.status = "lapsed";
                self.available += 1;
            }
        }
        self.hand_out();
    }
}

impl Entry {
    fn holds(&self) -> bool {
        matches!(self.status, "pending" | "paid")
    }
}
