//! A sound sale in which each test plants its fault.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{
    Answer, Evidence, Finding, History, InTime, Judgement, Ledger, Movement, Order, Outcome, Stock,
    judge,
};

pub const STOCK: i64 = 3;
/// How old "sold out" may be.
pub const AGE: Duration = Duration::from_millis(500);

/// A sale of three units to five buyers: buyers 1 to 3 bought, 4 and 5 were refused.
pub struct Case {
    pub before: Ledger,
    pub after: Ledger,
    pub answers: Vec<Answer>,
    pub stock: i64,
    pub quantity: i64,
    pub per_buyer_limit: i64,
    pub arbiter_on: bool,
    /// What was seen beside the purchases; `None`: times are not judged.
    pub history: Option<History>,
}

impl Case {
    pub fn sound() -> Self {
        let orders = (1..=3).map(order).collect();
        Self {
            before: ledger(STOCK, STOCK, Vec::new(), Vec::new()),
            after: ledger(STOCK, 0, orders, sold_to(1..=3)),
            answers: (1..=5)
                .map(|buyer| if buyer <= 3 { sold(buyer) } else { refused(buyer) })
                .collect(),
            stock: STOCK,
            quantity: 1,
            per_buyer_limit: 1,
            arbiter_on: true,
            history: None,
        }
    }

    pub fn judge(&self) -> Judgement {
        self.try_judge().expect("there is something to judge")
    }

    pub fn try_judge(&self) -> Result<Judgement, crate::CannotJudge> {
        judge(&Evidence {
            stock: self.stock,
            per_buyer_limit: self.per_buyer_limit,
            quantity: self.quantity,
            arbiter_on: self.arbiter_on,
            before: &self.before,
            after: &self.after,
            answers: &self.answers,
            in_time: self.history.as_ref().map(|history| InTime { history, sold_out_age: AGE }),
        })
    }

    /// What is found for one invariant.
    pub fn finding(&self, invariant: &str) -> Finding {
        let findings = self.judge().findings;
        findings.into_iter().find(|finding| finding.invariant == invariant).expect("judged")
    }

    pub fn without_keys(mut self) -> Self {
        self.answers.iter_mut().for_each(|answer| answer.key = None);
        self.after.orders.iter_mut().for_each(|order| order.key = None);
        self
    }
}

pub fn ledger(total: i64, available: i64, orders: Vec<Order>, movements: Vec<Movement>) -> Ledger {
    let stock = Some(Stock { total, available });
    Ledger { item_exists: true, stock, orders, movements, ..Ledger::default() }
}

pub fn order(buyer: i64) -> Order {
    Order {
        id: format!("order-{buyer}"),
        buyer,
        quantity: 1,
        status: "pending".into(),
        key: Some(format!("key-{buyer}")),
        fence: None,
    }
}

/// A movement of the buyer's order.
pub fn movement(buyer: i64, reason: &str, units: i64) -> Movement {
    Movement { order: format!("order-{buyer}"), reason: reason.into(), units }
}

/// The movements of orders of one unit.
pub fn sold_to(buyers: RangeInclusive<i64>) -> Vec<Movement> {
    buyers.map(|buyer| movement(buyer, "sold", -1)).collect()
}

pub fn answer(buyer: i64, status: u16, code: &str, outcome: Outcome) -> Answer {
    Answer {
        request: u32::try_from(buyer).expect("small"),
        attempt: 0,
        last: true,
        buyer,
        key: Some(format!("key-{buyer}")),
        strategy: 0,
        status,
        code: code.into(),
        outcome,
        order_id: None,
        order_quantity: None,
        order_status: None,
        refused_item: None,
        retryable: false,
        answered_at_us: 1,
        from_plan_us: 1,
        from_send_us: 1,
    }
}

pub fn sold(buyer: i64) -> Answer {
    let order_id = Some(format!("order-{buyer}"));
    Answer { order_id, order_quantity: Some(1), ..answer(buyer, 201, "sold", Outcome::Accepted) }
}

pub fn refused(buyer: i64) -> Answer {
    answer(buyer, 409, "sold_out", Outcome::Refused)
}

pub fn unknown(buyer: i64) -> Answer {
    answer(buyer, 0, "connection_lost", Outcome::Unknown)
}

pub fn example(judgement: &Judgement, invariant: &str) -> String {
    let finding =
        judgement.findings.iter().find(|finding| finding.invariant == invariant).expect("judged");
    finding.examples.join("\n")
}
