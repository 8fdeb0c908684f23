//! What an audit found.

use std::fmt::Arguments;

use serde::Serialize;

/// Examples kept of each kind of fault.
pub const EXAMPLES_MAX: usize = 5;

/// The faults of one kind, counted, with a few examples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Number of faults; of units for `oversold` and `undersold`.
    pub count: i64,
    /// The first [`EXAMPLES_MAX`] in words.
    pub examples: Vec<String>,
}

impl Faults {
    /// Counts one fault. `example` becomes a text only while examples are still kept.
    pub(crate) fn add(&mut self, example: Arguments<'_>) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example.to_string());
        }
    }

    /// `count` units of a fault that one sentence explains.
    pub(crate) fn of_units(count: i64, sentence: impl FnOnce() -> String) -> Self {
        let examples = if count > 0 { vec![sentence()] } else { Vec::new() };
        Self { count, examples }
    }
}

/// The result for one invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No fault was found.
    Holds,
    /// At least one fault was found.
    Broken,
    /// There was nothing to judge by; [`Finding::detail`] says why.
    NotJudged,
}

/// One invariant and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `I1` to `I22`.
    pub invariant: &'static str,
    /// What the invariant says.
    pub claim: &'static str,
    /// Whether it holds.
    pub state: State,
    /// The figures, or why it was not judged.
    pub detail: String,
    /// The first few faults that break it, in words.
    pub examples: Vec<String>,
}

impl Finding {
    /// Judged: it holds when there is no fault.
    pub(crate) fn judged(
        invariant: &'static str,
        claim: &'static str,
        detail: String,
        faults: Faults,
    ) -> Self {
        let state = if faults.count == 0 { State::Holds } else { State::Broken };
        Self { invariant, claim, state, detail, examples: faults.examples }
    }

    /// Not judged, with the reason.
    pub(crate) fn not_judged(
        invariant: &'static str,
        claim: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            invariant,
            claim,
            state: State::NotJudged,
            detail: reason.into(),
            examples: Vec::new(),
        }
    }
}

/// What the ledger says about purchases whose outcome was unknown to their client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnknownOutcomes {
    /// Purchases that ended without a definite answer.
    pub purchases: i64,
    /// Of these: an order is in the ledger.
    pub took_effect: i64,
    /// Of these: no order is in the ledger.
    pub no_effect: i64,
    /// Purchases that were unknown once and got a definite answer by a retry.
    pub settled_by_retry: i64,
}

/// The result of an audit, or of some of its rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// `I1` to `I14`, `I16` to `I20`, `I21` of a draw, and `I22`, in order.
    pub findings: Vec<Finding>,
    /// Units of live orders in the ledger.
    pub units_live: i64,
    /// Units that accepted answers promised.
    pub units_accepted: i64,
    /// Units sold beyond the stock.
    pub oversold: Faults,
    /// Units left although buyers who asked for them were turned away.
    pub undersold: Faults,
    /// Orders that were promised and are not in the ledger.
    pub lost: Faults,
    /// Orders that are not as their accepted answers said.
    #[serde(skip)]
    pub altered: Faults,
    /// Orders in the ledger without a recorded request.
    pub phantom: Faults,
    /// Orders of requests that were refused.
    #[serde(skip)]
    pub despite_refusal: Faults,
    /// More than one order by one key, or one order for several purchases.
    pub duplicates: Faults,
    /// Buyers above the limit.
    pub over_limit: Faults,
    /// Purchases of unknown outcome, resolved by the ledger.
    pub unknown: UnknownOutcomes,
}

/// How many faults of each kind a sale shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    pub oversold: i64,
    pub undersold: i64,
    pub lost: i64,
    pub phantom: i64,
    pub duplicates: i64,
}

impl FaultCounts {
    /// One count of each kind out of two: their sum, or the larger one.
    #[must_use]
    pub fn with(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        Self {
            oversold: combine(self.oversold, other.oversold),
            undersold: combine(self.undersold, other.undersold),
            lost: combine(self.lost, other.lost),
            phantom: combine(self.phantom, other.phantom),
            duplicates: combine(self.duplicates, other.duplicates),
        }
    }
}

impl Judgement {
    /// The counts alone.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        FaultCounts {
            oversold: self.oversold.count,
            undersold: self.undersold.count,
            lost: self.lost.count,
            phantom: self.phantom.count,
            duplicates: self.duplicates.count,
        }
    }

    /// The names of the broken invariants, in order.
    pub fn broken(&self) -> Vec<&'static str> {
        self.findings
            .iter()
            .filter(|finding| finding.state == State::Broken)
            .map(|finding| finding.invariant)
            .collect()
    }

    /// Whether no invariant is broken and nothing was oversold, undersold, lost, invented or doubled.
    pub fn is_clean(&self) -> bool {
        self.broken().is_empty() && self.counts() == FaultCounts::default()
    }
}
