//! Whether a strategy does what its card declares.
//!
//! With the arbiter on nobody may oversell. With it off, a gate that is declared safe must be clean
//! in every round, and one that is declared to break must be caught at least once where it breaks.
//! Nothing is concluded from nothing: no round, or one that could not be judged, is no success.

use ledger_audit::Expectation;
use serde::Serialize;

use super::cell::Round;

/// How it turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Clean, as expected.
    Clean,
    /// Oversold, as declared.
    Caught,
    /// Declared unsafe and not caught here.
    NotCaught,
    /// Nothing can be said.
    NotJudged,
    /// An invariant is broken where none may be.
    Broken,
}

impl Verdict {
    /// Judges the rounds of one setup.
    pub fn of(expectation: Expectation, rounds: &[Round]) -> Self {
        let judged: Vec<&Round> =
            rounds.iter().filter(|round| round.could_not_judge.is_none()).collect();
        match expectation {
            Expectation::Clean if judged.iter().any(|round| !round.clean) => Self::Broken,
            Expectation::Clean if judged.is_empty() || judged.len() < rounds.len() => {
                Self::NotJudged
            }
            Expectation::Clean => Self::Clean,
            Expectation::Caught if judged.iter().any(|round| round.faults.oversold > 0) => {
                Self::Caught
            }
            Expectation::Caught if judged.is_empty() => Self::NotJudged,
            Expectation::Caught => Self::NotCaught,
        }
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Caught => "oversells, as declared",
            Self::NotCaught => "not caught",
            Self::NotJudged => "NOT JUDGED",
            Self::Broken => "BROKEN",
        }
    }
}

/// The verdict on a whole strategy: that of its worst setup. An unsafe strategy must be caught in one
/// setup only.
pub fn of_strategy(setups: &[(Expectation, Verdict)]) -> Verdict {
    let caught = setups.iter().any(|(_, verdict)| *verdict == Verdict::Caught);
    let worst = setups
        .iter()
        .filter(|(expectation, _)| !(caught && *expectation == Expectation::Caught))
        .map(|(_, verdict)| *verdict)
        .max();
    match worst {
        None | Some(Verdict::Clean | Verdict::Caught) if caught => Verdict::Caught,
        None => Verdict::NotJudged,
        Some(worst) => worst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger_audit::{Breaks, FaultCounts};

    fn clean() -> Round {
        Round { clean: true, ..Round::default() }
    }
    fn oversold() -> Round {
        Round { faults: FaultCounts { oversold: 3, ..FaultCounts::default() }, ..Round::default() }
    }
    fn silent() -> Round {
        Round { could_not_judge: Some("no answer".to_owned()), ..Round::default() }
    }

    #[test]
    fn what_is_expected_follows_from_the_card() {
        use Expectation::{Caught, Clean};
        let expected = |breaks: Breaks| {
            [(true, 1), (true, 2), (false, 1), (false, 2)]
                .map(|(arbiter, instances)| breaks.expectation(arbiter, instances))
        };
        assert_eq!(expected(Breaks::Never), [Clean, Clean, Clean, Clean]);
        assert_eq!(expected(Breaks::Alone), [Clean, Clean, Caught, Caught]);
        assert_eq!(expected(Breaks::WithTwoInstances), [Clean, Clean, Clean, Caught]);
    }

    #[test]
    fn one_broken_round_breaks_and_no_round_proves_nothing() {
        let of = |rounds: &[Round]| Verdict::of(Expectation::Clean, rounds);
        assert_eq!(of(&[clean(), clean()]), Verdict::Clean);
        assert_eq!(of(&[clean(), oversold(), silent()]), Verdict::Broken);
        assert_eq!(of(&[clean(), silent()]), Verdict::NotJudged);
        assert_eq!(of(&[]), Verdict::NotJudged);
    }

    #[test]
    fn an_unsafe_one_must_be_caught_once() {
        let of = |rounds: &[Round]| Verdict::of(Expectation::Caught, rounds);
        assert_eq!(of(&[clean(), oversold(), silent()]), Verdict::Caught);
        assert_eq!(of(&[clean()]), Verdict::NotCaught);
        assert_eq!(of(&[silent()]), Verdict::NotJudged);
        assert_eq!(of(&[]), Verdict::NotJudged);
    }

    #[test]
    fn a_strategy_is_as_good_as_its_worst_setup() {
        use Verdict::{Broken, Caught, Clean, NotCaught, NotJudged};
        let (clean, caught) = (Expectation::Clean, Expectation::Caught);
        assert_eq!(of_strategy(&[(clean, Clean), (clean, Clean)]), Clean);
        assert_eq!(of_strategy(&[(clean, Clean), (caught, NotCaught), (caught, Caught)]), Caught);
        assert_eq!(of_strategy(&[(clean, Broken), (caught, Caught)]), Broken);
        assert_eq!(of_strategy(&[(clean, NotJudged), (caught, Caught)]), NotJudged);
        assert_eq!(of_strategy(&[(clean, Clean), (caught, NotCaught)]), NotCaught);
        assert_eq!(of_strategy(&[(clean, Clean), (clean, Broken)]), Broken);
        assert_eq!(of_strategy(&[]), NotJudged);
    }
}
