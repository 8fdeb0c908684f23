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
    /// The movements of stock, added up.
    pub movements_sum: i64,
    /// What was looked for against an invariant, and how often it was found.
    pub counted: Vec<FaultCount>,
    /// Units left by the Redis counter; `None` when it is not loaded.
    pub redis_available: Option<i64>,
    /// Units of orders in the Redis queue: taken from the counter, and not in the ledger yet.
    pub redis_queued: i64,
    /// Units left by the split Redis counter; `None` when it is not loaded.
    pub redis_buckets: Option<i64>,
    /// The rows in each table that a strategy has beside the stock, with their name; no more than `available`.
    pub strategy_rows: Vec<(&'static str, i64)>,
}

/// The name of an invariant, what breaks it, and how often that was found.
pub type FaultCount = (&'static str, &'static str, i64);

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
    pub fn is_clean(&self) -> bool {
        let holds = self.findings.iter().all(|finding| finding.holds != Some(false));
        holds && self.units_oversold() == 0
    }

    /// Units sold beyond the total.
    pub fn units_oversold(&self) -> i64 {
        (self.facts.units_sold + self.facts.units_held - self.facts.total).max(0)
    }
}

/// The invariants with their claims.
const CLAIMS: [(&str, &str); 12] = [
    ("I1", "total = start + restocks = available + offered + sold + held, and nothing below zero"),
    ("I2", "no buyer has more than the limit"),
    ("I3", "the movements add up to available + offered - total"),
    ("I4", "no order without its movements, no movement without its order"),
    ("I5", "each cancelled or expired order gave back exactly its quantity, once"),
    ("I6", "fences of accepted writes never fall"),
    (
        "I7",
        "the Redis counter and queue equal the ledger once traffic is quiet, and no unit has a row that is not available",
    ),
    (
        "I13",
        "offered units are open offers, accepted offers are orders, and nobody is overtaken or waits for available units",
    ),
    ("I14", "no buyer has more of a group of items than its limit"),
    ("I20", "an order of several items is whole or absent"),
    (
        "I21",
        "each entry of the draw has one place, the line is in their order, and nobody buys past them",
    ),
    (
        "I22",
        "each order costs what its units cost; an order with an accepted payment is paid, and has one",
    ),
];
/// The invariants that only an arbiter keeps.
const BY_ARBITER: [&str; 3] = ["I2", "I6", "I13"];

/// Verifies the invariants of one item.
pub fn verify(facts: Facts) -> Report {
    let findings = CLAIMS.map(|(invariant, claim)| {
        let (holds, detail) = match invariant {
            "I1" => units(&facts),
            "I3" => movements(&facts),
            "I7" => copies(&facts),
            _ => counted(&facts, invariant),
        };
        Finding { invariant, claim, holds, detail }
    });
    Report { facts, findings: findings.into() }
}

/// Whether an invariant holds, and the figures.
type Judged = (Option<bool>, String);

fn counted(f: &Facts, invariant: &str) -> Judged {
    let counted: Vec<&FaultCount> =
        f.counted.iter().filter(|(name, ..)| *name == invariant).collect();
    if counted.is_empty() {
        return (None, "nothing to judge".to_owned());
    }
    let is_judged = f.arbiter == ArbiterMode::On || !BY_ARBITER.contains(&invariant);
    let holds = is_judged.then(|| counted.iter().all(|(.., count)| *count == 0));
    let told: Vec<String> =
        counted.iter().map(|(_, what, count)| format!("{count} {what}")).collect();
    (holds, told.join(", "))
}

fn units(f: &Facts) -> Judged {
    let holds = f.available + f.offered + f.units_sold + f.units_held == f.total
        && f.total_written_down.is_none_or(|written| written == f.total)
        && (f.arbiter == ArbiterMode::Off || f.available >= 0)
        && f.offered >= 0;
    let detail = format!(
        "total {}, start + restocks {}, available {}, offered {}, sold {}, held {}",
        f.total,
        f.total_written_down.map_or_else(|| "not known".to_owned(), |it| it.to_string()),
        f.available,
        f.offered,
        f.units_sold,
        f.units_held
    );
    (Some(holds), detail)
}

fn movements(f: &Facts) -> Judged {
    let moved = f.movements_sum;
    let left = f.available + f.offered - f.total;
    (Some(moved == left), format!("movements {moved}, available + offered - total {left}"))
}

fn copies(f: &Facts) -> Judged {
    let mut drifts = Vec::new();
    let mut told = Vec::new();
    if let Some(redis) = f.redis_available {
        let drift = redis + f.redis_queued - f.available;
        drifts.push(drift);
        told.push(format!("drift {drift}, {} queued", f.redis_queued));
    }
    if let Some(redis) = f.redis_buckets {
        let drift = redis - f.available;
        drifts.push(drift);
        told.push(format!("drift {drift} over the buckets"));
    }
    for (name, rows) in f.strategy_rows.iter().filter(|(_, rows)| *rows > 0) {
        let too_many = (rows - f.available).max(0);
        drifts.push(too_many);
        told.push(format!("{rows} {name}, {too_many} too many"));
    }
    if drifts.is_empty() {
        return (None, "not loaded".to_owned());
    }
    (Some(drifts.iter().all(|drift| *drift == 0)), told.join("; "))
}

#[cfg(test)]
mod tests;
