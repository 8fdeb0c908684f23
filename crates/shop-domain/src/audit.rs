//! Verifies the invariants of one item on the figures that were read from the ledger.
//!
//! `ledger::rows::audit` reads the figures; this module only verifies them, so that tests with
//! planted faults need no database.

use super::{ArbiterMode, ItemId};

/// The figures of one item, read in one consistent snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub item_id: ItemId,
    /// Whether its arbiter is on.
    pub arbiter: ArbiterMode,
    /// Units at the start and by restocks, by the stock row.
    pub total: i64,
    /// Units at the start and by restocks, as they were written down; `None` where those at the start were not.
    pub total_written_down: Option<i64>,
    /// Units left, by the stock row.
    pub available: i64,
    /// Units that open offers hold, by the stock row.
    pub offered: i64,
    /// Units of paid orders.
    pub units_sold: i64,
    /// Units of pending orders.
    pub units_held: i64,
    /// Orders in the ledger, whatever their state.
    pub orders: i64,
    /// Buyers with more live units than the limit allows.
    pub buyers_over_limit: i64,
    /// Buyers whose counted units differ from their live orders.
    pub buyers_miscounted: i64,
    pub movements_sum: i64,
    /// Orders whose movements do not add up to what their state holds.
    pub orders_without_their_movements: i64,
    /// Movements that belong to no order.
    pub movements_without_order: i64,
    /// Cancelled or expired orders that did not give back exactly their quantity, once.
    pub give_backs_wrong: i64,
    /// Orders whose fence is below one that was accepted before under the same counter.
    pub fences_fallen: i64,
    /// Orders whose fence is above the highest that was accepted under its counter.
    pub fences_above_accepted: i64,
    /// Orders with a fence that was never compared with the accepted one.
    pub fences_not_compared: i64,
    /// Open offers in the waiting list.
    pub offers_open: i64,
    /// Accepted offers without an order of their own of the same buyer, and orders from the waiting
    /// list without an accepted offer.
    pub offers_without_their_orders: i64,
    /// Places that were served before a place in front of them.
    pub places_overtaken: i64,
    /// Buyers who wait although units are available and the sale is open.
    pub waiting_in_vain: i64,
    /// Whether the item or an order of it is in a group that shares a limit.
    pub is_grouped: bool,
    /// Buyers with more live units of a group than its limit allows.
    pub group_buyers_over_limit: i64,
    /// Buyers whose units counted in a group differ from their live orders.
    pub group_buyers_miscounted: i64,
    /// Lines of orders of which another line is missing, or is in another state.
    pub orders_halved: i64,
    /// Entries that have not the place in the line that was drawn for them; `None` unless the item is drawn.
    pub draw_places_wrong: Option<i64>,
    /// Orders, or lines of them, whose amount is not the price of their units.
    pub orders_mispriced: i64,
    /// Orders that several payments of a provider have paid, or that are not paid although one has.
    pub orders_paid_wrongly: i64,
    /// Units left by the Redis counter; `None` when it is not loaded.
    pub redis_available: Option<i64>,
    /// Units of orders in the Redis queue: taken from the counter, and not in the ledger yet.
    pub redis_queued: i64,
    /// Units left by the split Redis counter; `None` when it is not loaded.
    pub redis_buckets: Option<i64>,
    /// The rows in each table that a strategy has beside the stock, with their name; no more than `available`.
    pub strategy_rows: Vec<(&'static str, i64)>,
}

/// One invariant and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// `I1` to `I7`, `I13`, `I14` and `I20` to `I22`.
    pub invariant: &'static str,
    /// The claim of the invariant.
    pub claim: &'static str,
    /// Whether it holds; `None` when the figures for it are missing.
    pub holds: Option<bool>,
    /// The figures.
    pub detail: String,
}

/// The audit of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The figures.
    pub facts: Facts,
    /// `I1` to `I7`, `I13`, `I14` and `I20` to `I22`, in order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether no invariant is broken and no unit is oversold. Without an arbiter the second does
    /// not follow from the first: a gate with its own counter can oversell while every sum is
    /// right.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let holds = self.findings.iter().all(|finding| finding.holds != Some(false));
        holds && self.units_oversold() == 0
    }

    /// Units sold beyond the total.
    #[must_use]
    pub fn units_oversold(&self) -> i64 {
        (self.facts.units_sold + self.facts.units_held - self.facts.total).max(0)
    }
}

/// Verifies `I1` to `I7`, `I13`, `I14` and `I20` to `I22` of one item.
#[must_use]
pub fn verify(facts: Facts) -> Report {
    let f = &facts;
    let guarded = f.arbiter == ArbiterMode::On;
    let left = f.available + f.offered;
    let accounted = left + f.units_sold + f.units_held;
    let drift = f.redis_available.map(|redis| redis + f.redis_queued - f.available);
    let split_drift = f.redis_buckets.map(|redis| redis - f.available);
    let mut drifts: Vec<i64> = [drift, split_drift].into_iter().flatten().collect();
    let counted = [
        drift.map(|drift| format!("drift {drift}, {} queued", f.redis_queued)),
        split_drift.map(|drift| format!("drift {drift} over the buckets")),
    ];
    let mut counted: Vec<String> = counted.into_iter().flatten().collect();
    for (name, rows) in f.strategy_rows.iter().filter(|(_, rows)| *rows > 0) {
        let too_many = (rows - f.available).max(0);
        drifts.push(too_many);
        counted.push(format!("{rows} {name}, {too_many} too many"));
    }
    let mut findings = vec![
        Finding {
            invariant: "I1",
            claim: "total = start + restocks = available + offered + sold + held, and nothing below zero",
            holds: Some(
                accounted == f.total
                    && f.total_written_down.is_none_or(|written| written == f.total)
                    && (!guarded || f.available >= 0)
                    && f.offered >= 0,
            ),
            detail: format!(
                "total {}, start + restocks {}, available {}, offered {}, sold {}, held {}",
                f.total,
                f.total_written_down.map_or_else(|| "not known".to_owned(), |it| it.to_string()),
                f.available,
                f.offered,
                f.units_sold,
                f.units_held
            ),
        },
        Finding {
            invariant: "I2",
            claim: "no buyer has more than the limit",
            holds: guarded.then_some(f.buyers_over_limit == 0 && f.buyers_miscounted == 0),
            detail: format!(
                "{} buyers over the limit, {} miscounted",
                f.buyers_over_limit, f.buyers_miscounted
            ),
        },
        Finding {
            invariant: "I3",
            claim: "the movements add up to available + offered - total",
            holds: Some(f.movements_sum == left - f.total),
            detail: format!(
                "movements {}, available + offered - total {}",
                f.movements_sum,
                left - f.total
            ),
        },
        Finding {
            invariant: "I4",
            claim: "no order without its movements, no movement without its order",
            holds: Some(f.orders_without_their_movements == 0 && f.movements_without_order == 0),
            detail: format!(
                "{} orders, {} without their movements; {} movements without an order",
                f.orders, f.orders_without_their_movements, f.movements_without_order
            ),
        },
        Finding {
            invariant: "I5",
            claim: "each cancelled or expired order gave back exactly its quantity, once",
            holds: Some(f.give_backs_wrong == 0),
            detail: format!("{} wrong", f.give_backs_wrong),
        },
        Finding {
            invariant: "I6",
            claim: "fences of accepted writes never fall",
            holds: guarded.then_some(
                f.fences_fallen == 0 && f.fences_above_accepted == 0 && f.fences_not_compared == 0,
            ),
            detail: format!(
                "{} orders below a fence accepted before, {} above the accepted fence, {} not compared",
                f.fences_fallen, f.fences_above_accepted, f.fences_not_compared
            ),
        },
        Finding {
            invariant: "I7",
            claim: "the Redis counter and queue equal the ledger once traffic is quiet, and no unit has a row that is not available",
            holds: (!drifts.is_empty()).then(|| drifts.iter().all(|drift| *drift == 0)),
            detail: if counted.is_empty() { "not loaded".to_owned() } else { counted.join("; ") },
        },
        Finding {
            invariant: "I13",
            claim: "offered units are open offers, accepted offers are orders, and nobody is overtaken or waits for available units",
            holds: guarded.then_some(
                f.offers_open == f.offered
                    && f.offers_without_their_orders == 0
                    && f.places_overtaken == 0
                    && f.waiting_in_vain == 0,
            ),
            detail: format!(
                "offered {}, open offers {}; {} without their orders, {} overtaken, {} wait in vain",
                f.offered,
                f.offers_open,
                f.offers_without_their_orders,
                f.places_overtaken,
                f.waiting_in_vain
            ),
        },
        Finding {
            invariant: "I14",
            claim: "no buyer has more of a group of items than its limit",
            holds: f
                .is_grouped
                .then_some(f.group_buyers_over_limit == 0 && f.group_buyers_miscounted == 0),
            detail: if f.is_grouped {
                format!(
                    "{} buyers over the limit, {} miscounted",
                    f.group_buyers_over_limit, f.group_buyers_miscounted
                )
            } else {
                "in no group".to_owned()
            },
        },
        Finding {
            invariant: "I20",
            claim: "an order of several items is whole or absent",
            holds: Some(f.orders_halved == 0),
            detail: format!("{} lines without the others", f.orders_halved),
        },
    ];
    findings.extend(f.draw_places_wrong.map(|wrong| Finding {
        invariant: "I21",
        claim: "each entry of the draw has one place, the line is in their order, and nobody buys past them",
        holds: Some(wrong == 0),
        detail: format!("{wrong} wrong"),
    }));
    findings.push(Finding {
        invariant: "I22",
        claim: "each order costs what its units cost; an order with an accepted payment is paid, and has one",
        holds: Some(f.orders_mispriced == 0 && f.orders_paid_wrongly == 0),
        detail: format!(
            "{} at another price, {} paid wrongly",
            f.orders_mispriced, f.orders_paid_wrongly
        ),
    });
    Report { facts, findings }
}

#[cfg(test)]
mod tests;
