//! The result of the comparison: its figures, and the conclusions from them.

use serde::Serialize;

use super::figures::{Card, Row};
use super::verdict::{self, Verdict};
use crate::circumstances::Circumstances;
use crate::failure::{EXIT_BROKEN, EXIT_CLEAN, EXIT_COULD_NOT_JUDGE};
use crate::options::Switch;

/// What the comparison found.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub exit_code: u8,
    pub sentence: String,
    pub circumstances: Circumstances,
    /// The settings that all loads share, for people.
    pub load: String,
    pub strategies: Vec<StrategyVerdict>,
    pub rows: Vec<Row>,
}

/// A strategy and the verdict on it.
#[derive(Debug, Serialize)]
pub struct StrategyVerdict {
    #[serde(flatten)]
    pub card: Card,
    pub verdict: Verdict,
    /// What to know about the verdict.
    pub remark: String,
}

impl Comparison {
    /// The rows of one setup (arbiter and number of instances), the fastest first.
    pub fn rows_of(&self, arbiter: Switch, instances: usize) -> Vec<&Row> {
        let of_setup = |row: &&Row| (row.arbiter, row.instances) == (arbiter, instances);
        let mut rows: Vec<&Row> = self.rows.iter().filter(of_setup).collect();
        rows.sort_by(|left, right| {
            right.accepted_per_second.median.total_cmp(&left.accepted_per_second.median)
        });
        rows
    }
}

/// The verdict on one strategy, from all its setups.
pub fn judge_strategy(card: Card, rows: &[Row]) -> StrategyVerdict {
    if !card.available {
        let remark = "its servers are not configured here".to_owned();
        return StrategyVerdict { card, verdict: Verdict::NotJudged, remark };
    }
    let own = || rows.iter().filter(|row| row.strategy == card.name);
    let setups: Vec<_> = own().map(|row| (row.expectation, row.verdict)).collect();
    let verdict = verdict::of_strategy(&setups);
    let remark = match verdict {
        Verdict::Broken | Verdict::NotJudged => own()
            .filter(|row| row.verdict == verdict)
            .flat_map(|row| row.rounds.iter().map(move |round| (row, round)))
            .find_map(|(row, round)| {
                let reason = round.could_not_judge.as_ref().unwrap_or(&round.verdict);
                let bad = round.could_not_judge.is_some() || !round.clean;
                bad.then(|| format!("{}: {reason}", setup(row)))
            })
            .unwrap_or_default(),
        Verdict::NotCaught => {
            "declared unsafe; more rounds, buyers or, for a strategy that trusts clocks, libfaketime may catch it".to_owned()
        }
        Verdict::Caught => {
            let worst = own()
                .filter(|row| row.verdict == Verdict::Caught)
                .max_by_key(|row| row.faults.oversold);
            worst.map_or_else(String::new, |row| {
                format!("{} units too many, {}", row.faults.oversold, setup(row))
            })
        }
        Verdict::Clean => String::new(),
    };
    StrategyVerdict { card, verdict, remark }
}

/// Switch and number of instances in words.
pub fn setup(row: &Row) -> String {
    let plural = if row.instances == 1 { "" } else { "s" };
    format!("arbiter {}, {} instance{plural}", row.arbiter.as_str(), row.instances)
}

/// The exit code and the sentence that says it all.
pub fn conclusion(strategies: &[StrategyVerdict]) -> (u8, String) {
    let named = |verdicts: &[Verdict]| -> Vec<&str> {
        let those = strategies
            .iter()
            .filter(|judged| judged.card.available && verdicts.contains(&judged.verdict));
        those.map(|judged| judged.card.name.as_str()).collect()
    };
    let left_out = strategies.iter().filter(|judged| !judged.card.available).count();
    let clean = named(&[Verdict::Clean]).len();
    let caught = named(&[Verdict::Caught]).len();
    let mut sentence = format!(
        "{clean} safe strategies clean in every round, {caught} unsafe ones caught and stopped by the arbiter"
    );
    let broken = named(&[Verdict::Broken, Verdict::NotCaught]);
    let unjudged = named(&[Verdict::NotJudged]);
    for (names, word) in [(&broken, "NOT AS DECLARED"), (&unjudged, "NOT JUDGED")] {
        if !names.is_empty() {
            sentence = format!("{sentence}; {word}: {}", names.join(", "));
        }
    }
    if left_out > 0 {
        sentence = format!("{sentence}; {left_out} left out, since their servers are not here");
    }
    let exit_code = match (broken.is_empty(), unjudged.is_empty() && clean + caught > 0) {
        (false, _) => EXIT_BROKEN,
        (true, false) => EXIT_COULD_NOT_JUDGE,
        (true, true) => EXIT_CLEAN,
    };
    (exit_code, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, available: bool, verdict: Verdict) -> StrategyVerdict {
        let card = Card { name: name.to_owned(), available, ..Card::default() };
        StrategyVerdict { card, verdict, remark: String::new() }
    }

    #[test]
    fn the_exit_code_tells_and_nothing_is_never_clean() {
        let good = || judged("good", true, Verdict::Clean);
        let exit_code = |strategies: &[StrategyVerdict]| conclusion(strategies).0;
        assert_eq!(exit_code(&[good(), judged("bad", true, Verdict::Caught)]), EXIT_CLEAN);
        assert_eq!(exit_code(&[good(), judged("x", true, Verdict::Broken)]), EXIT_BROKEN);
        assert_eq!(exit_code(&[good(), judged("x", true, Verdict::NotCaught)]), EXIT_BROKEN);
        assert_eq!(
            exit_code(&[good(), judged("x", true, Verdict::NotJudged)]),
            EXIT_COULD_NOT_JUDGE
        );
        assert_eq!(exit_code(&[good(), judged("x", false, Verdict::NotJudged)]), EXIT_CLEAN);
        assert_eq!(exit_code(&[judged("x", false, Verdict::NotJudged)]), EXIT_COULD_NOT_JUDGE);
        assert_eq!(exit_code(&[]), EXIT_COULD_NOT_JUDGE);
    }
}
