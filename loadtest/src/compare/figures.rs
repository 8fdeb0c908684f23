//! The rounds of one setup, summed up: medians with their spread, and ranks as far as differences are more than noise.

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
    /// Best and worst rank by accepted purchases per second that the rounds leave possible.
    pub rank: (usize, usize),
    pub rounds: Vec<Round>,
}

impl Row {
    /// Sums the rounds up; ranks are set by [`set_ranks`].
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
            rank: (0, 0),
            rounds,
        }
    }
}

/// Sets the ranks of all rows, each among those of its arbiter and number of instances.
pub fn set_ranks(rows: &mut [Row]) {
    let all: Vec<(Switch, usize, Spread)> =
        rows.iter().map(|row| (row.arbiter, row.instances, row.accepted_per_second)).collect();
    for row in rows {
        let own = row.accepted_per_second;
        let peers = || {
            all.iter()
                .filter(|(arbiter, instances, _)| {
                    (*arbiter, *instances) == (row.arbiter, row.instances)
                })
                .map(|(_, _, spread)| *spread)
        };
        let faster = peers().filter(|peer| peer.is_above(own)).count();
        let slower = peers().filter(|peer| own.is_above(*peer)).count();
        row.rank = (faster + 1, peers().count() - slower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, rates: &[f64]) -> Row {
        let card = Card { name: name.to_owned(), ..Card::default() };
        let round = |rate: &f64| Round { accepted_per_second: *rate, ..Round::default() };
        Row::of(&card, Switch::On, 1, rates.iter().map(round).collect())
    }

    #[test]
    fn overlapping_rounds_are_noise_and_share_ranks() {
        let mut rows = [row("a", &[10.0, 12.0]), row("b", &[11.0, 13.0]), row("c", &[1.0, 2.0])];
        set_ranks(&mut rows);
        assert_eq!(rows.iter().map(|row| row.rank).collect::<Vec<_>>(), [(1, 2), (1, 2), (3, 3)]);
    }
}
