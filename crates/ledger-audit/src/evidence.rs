//! The evidence of one item, on which every rule judges.

use std::sync::LazyLock;
use std::time::Duration;

use crate::{Answer, History, Ledger};

/// The evidence of one item: the stock that was put on sale, the answers to buyers, and the rows of the ledger.
pub struct Evidence<'a> {
    /// Units that were put on sale. The caller knows them; computing them from the units that
    /// are left would hide every lost update.
    pub stock: i64,
    /// Units one buyer may have.
    pub per_buyer_limit: i64,
    /// Units of each purchase.
    pub quantity: i64,
    /// Whether the service checked stock, limit and fence again inside its transaction (the second
    /// line of defence). Without it, I2 and I6 are not judged.
    pub arbiter_on: bool,
    /// The ledger before the first purchase; empty for a new item.
    pub before: &'a Ledger,
    /// The ledger after the traffic, once no purchase is under way.
    pub after: &'a Ledger,
    /// The whole record of answers.
    pub answers: &'a [Answer],
    /// What I16 to I19 need; without it they are not judged.
    pub in_time: Option<InTime<'a>>,
}

impl<'a> Evidence<'a> {
    /// The evidence of a new item with the arbiter, of which each buyer may have one unit and has asked for one.
    pub fn of(stock: i64, after: &'a Ledger, answers: &'a [Answer]) -> Self {
        static NOTHING: LazyLock<Ledger> = LazyLock::new(Ledger::default);
        Self {
            stock,
            per_buyer_limit: 1,
            quantity: 1,
            arbiter_on: true,
            before: &NOTHING,
            after,
            answers,
            in_time: None,
        }
    }
}

/// What the rules about time need beside the answers.
#[derive(Debug, Clone, Copy)]
pub struct InTime<'a> {
    /// What was seen beside the purchases; it may be empty.
    pub history: &'a History,
    /// How old the service's word "sold out" may be: the greatest age of what it remembers.
    pub sold_out_age: Duration,
}
