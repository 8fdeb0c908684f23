//! What an audit found.

use serde::Serialize;

/// Examples kept of each kind of fault.
pub const EXAMPLES_MAX: usize = 5;

/// Faults of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// How many (units for oversold and undersold).
    pub count: i64,
    /// The first few, in words.
    pub examples: Vec<String>,
}

impl Faults {
    /// Notes one fault; its words are made only when they are kept.
    pub fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example());
        }
    }

    /// `count` units of a fault that one sentence explains.
    pub fn of_units(count: i64, sentence: impl FnOnce() -> String) -> Self {
        let examples = if count > 0 { vec![sentence()] } else { Vec::new() };
        Self { count, examples }
    }
}

/// Whether one invariant holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Holds,
    Broken,
    NotJudged,
}

/// One invariant, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `I1` to `I12`.
    pub invariant: &'static str,
    /// What it claims.
    pub claim: &'static str,
    pub state: State,
    /// The figures, or why it was not judged.
    pub detail: String,
    /// What breaks it, the first few.
    pub examples: Vec<String>,
}

impl Finding {
    /// Holds when there is no fault.
    pub fn judged(
        invariant: &'static str,
        claim: &'static str,
        detail: String,
        faults: Faults,
    ) -> Self {
        let state = if faults.count == 0 { State::Holds } else { State::Broken };
        Self { invariant, claim, state, detail, examples: faults.examples }
    }

    /// Not judged, and why.
    pub fn not_judged(
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

/// What became of purchases whose answer was unknown.
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

/// The whole judgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// `I1` to `I12`, in order.
    pub findings: Vec<Finding>,
    /// Units of live orders in the ledger.
    pub units_live: i64,
    /// Units that accepted answers promised.
    pub units_accepted: i64,
    /// Units sold beyond the stock.
    pub oversold: Faults,
    /// Units left although there was demand.
    pub undersold: Faults,
    /// Accepted but not in the ledger as accepted.
    pub lost: Faults,
    /// In the ledger but never attempted.
    pub phantom: Faults,
    /// More than one order by one key, or one order for several purchases.
    pub duplicates: Faults,
    /// Buyers above the limit.
    pub over_limit: Faults,
    /// Unknown answers, resolved by the ledger.
    pub unknown: UnknownOutcomes,
}

impl Judgement {
    /// The invariants that are broken.
    pub fn broken(&self) -> Vec<&'static str> {
        self.findings
            .iter()
            .filter(|finding| finding.state == State::Broken)
            .map(|finding| finding.invariant)
            .collect()
    }

    /// Whether nothing is broken, oversold, lost, and so on.
    pub fn is_clean(&self) -> bool {
        let faults = [&self.oversold, &self.undersold, &self.lost, &self.phantom, &self.duplicates];
        self.broken().is_empty() && faults.iter().all(|fault| fault.count == 0)
    }
}
