//! What the entries of a log add up to, and the rules of the sale.

use std::collections::HashMap;

use super::line::{Line, Name};
use super::sold_out::{Change, Refusal, is_told_early};
use super::{LogFault, LogReport};

/// An order.
struct Order {
    buyer: Name,
    units: i64,
    /// Whether it has its units.
    is_live: bool,
}

#[derive(Default)]
pub(super) struct Books {
    /// Units that were put on sale.
    pub(super) total: i64,
    /// Units that are sold, and the orders that have them.
    pub(super) units: i64,
    pub(super) orders: i64,
    pub(super) refusals: i64,
    /// How long an answer may take into the log.
    pub(super) delay_seconds: i64,
    limit: i64,
    is_open: bool,
    by_order: HashMap<Name, Order>,
    by_buyer: HashMap<Name, i64>,
    changes: Vec<Change>,
    told_sold_out: Vec<Refusal>,
}

impl Books {
    pub(super) fn take(&mut self, report: &mut LogReport, position: u64, line: &Line<'_>) {
        let is_first = matches!(line, Line::Opened { .. });
        if is_first == self.is_open {
            report.fault(LogFault::Orders, format!("the entry {position} is not where it may be"));
        }
        self.is_open = true;
        match *line {
            Line::Opened { units, limit, delay_seconds, time } => {
                (self.limit, self.delay_seconds) = (limit, delay_seconds);
                self.total += units;
                self.changes.push(Change { time, units });
            }
            Line::Stock { time, units } => {
                self.total += units;
                self.changes.push(Change { time, units });
            }
            Line::Offers { time, units } => self.changes.push(Change { time, units: -units }),
            Line::Sold { time, order, buyer, units } => {
                let known = self.by_order.entry(order);
                let known = known.or_insert(Order { buyer, units, is_live: false });
                if known.is_live || (known.buyer, known.units) != (buyer, units) {
                    report.fault(LogFault::Orders, format!("the entry {position} is sold again"));
                }
                known.is_live = true;
                let has = self.by_buyer.entry(buyer).or_insert(0);
                *has += units;
                if *has > self.limit {
                    let sentence = format!("the buyer of entry {position} has {has} units");
                    report.fault(LogFault::Limit, sentence);
                }
                (self.units, self.orders) = (self.units + units, self.orders + 1);
                self.changes.push(Change { time, units: -units });
            }
            Line::Returned { time, order, buyer, units } => {
                match self.by_order.get_mut(&order) {
                    Some(known)
                        if known.is_live && (known.buyer, known.units) == (buyer, units) =>
                    {
                        known.is_live = false;
                    }
                    _ => {
                        let sentence = format!("the entry {position} comes back unsold");
                        report.fault(LogFault::Orders, sentence);
                    }
                }
                *self.by_buyer.entry(buyer).or_insert(0) -= units;
                (self.units, self.orders) = (self.units - units, self.orders - 1);
                self.changes.push(Change { time, units });
            }
            Line::Refused { time, units, code } => {
                self.refusals += 1;
                if code == "sold_out" {
                    self.told_sold_out.push(Refusal { time, units });
                }
            }
            Line::Key(_) | Line::Head(_) | Line::Entry { .. } | Line::Ended => {}
        }
    }

    pub(super) fn end(&mut self, report: &mut LogReport) {
        let refusals = std::mem::take(&mut self.told_sold_out);
        if let Some(early) = is_told_early(std::mem::take(&mut self.changes), refusals) {
            let sentence = format!("\"sold out\" was told at {} while units were left", early.time);
            report.fault(LogFault::SoldOut, sentence);
        }
    }
}
