//! The rounds of one setup, summed up: medians with their spread.

use serde::{Deserialize, Serialize};

use super::cell::Round;
use super::verdict::Verdict;
use crate::options::Switch;
use crate::report::summary::Latency;
use crate::spread::Spread;
use ledger_audit::{Breaks, Expectation, FaultCounts};

/// What the service says about a strategy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Card {
    pub name: String,
    pub safe: bool,
    pub breaks_with: Breaks,
    pub available: bool,
}

/// One strategy in one setup.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub strategy: String,
    pub arbiter: Switch,
    pub instances: usize,
    pub expectation: Expectation,
    pub verdict: Verdict,
    /// Accepted purchases per second, over rounds.
    pub accepted_per_second: Spread,
    pub refused_per_second: Spread,
    /// Of accepted purchases, all rounds together.
    pub latency: Latency,
    /// Summed over rounds.
    pub retries: u64,
    /// The most of any round.
    #[serde(flatten)]
    pub faults: FaultCounts,
    pub rounds: Vec<Round>,
}

impl Row {
    /// Sums the rounds up.
    pub fn of(card: &Card, arbiter: Switch, instances: usize, rounds: Vec<Round>) -> Self {
        let expectation = card.breaks_with.expectation(arbiter == Switch::On, instances);
        // Rounds with more buyers, made to catch it, are not compared by speed.
        let usual = rounds.iter().map(|round| round.concurrency).min().unwrap_or(0);
        let judged = || {
            rounds
                .iter()
                .filter(move |round| round.could_not_judge.is_none() && round.concurrency == usual)
        };
        let latencies: Vec<u64> =
            judged().flat_map(|round| round.latencies_us.iter().copied()).collect();
        Self {
            strategy: card.name.clone(),
            arbiter,
            instances,
            expectation,
            verdict: Verdict::of(expectation, &rounds),
            accepted_per_second: Spread::of(judged().map(|round| round.accepted_per_second)),
            refused_per_second: Spread::of(judged().map(|round| round.refused_per_second)),
            latency: Latency::of_all(&latencies),
            retries: rounds.iter().map(|round| round.retries).sum(),
            faults: rounds
                .iter()
                .map(|round| round.faults)
                .fold(FaultCounts::default(), |worst, round| worst.with(round, i64::max)),
            rounds,
        }
    }
}
