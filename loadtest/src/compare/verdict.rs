//! Whether a strategy does what its card declares.
//!
//! With the arbiter on nobody may oversell. With it off, a gate that is declared safe must be clean
//! in every round, and one that is declared to break must be caught at least once where it breaks.
//! Nothing is concluded from nothing: no round, or one that could not be judged, is no success.

use serde::{Deserialize, Serialize};

use super::cell::Round;
use crate::options::Switch;

/// When the gate without the arbiter oversells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaks {
    /// Never: the gate is safe.
    #[default]
    Never,
    /// With one instance.
    Alone,
    /// Only with more than one instance.
    WithTwoInstances,
}

/// What is expected of one strategy in one setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// Every round clean.
    Clean,
    /// Oversold at least once, over all its setups of this kind.
    Caught,
}

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

impl Breaks {
    /// What is expected with this arbiter on this number of instances.
    pub fn expectation(self, arbiter: Switch, instances: usize) -> Expectation {
        match (arbiter, self) {
            (Switch::On, _) | (_, Self::Never) => Expectation::Clean,
            (Switch::Off, Self::WithTwoInstances) if instances < 2 => Expectation::Clean,
            (Switch::Off, _) => Expectation::Caught,
        }
    }

    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Never => "safe",
            Self::Alone => "breaks alone",
            Self::WithTwoInstances => "breaks with two instances",
        }
    }
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
            Expectation::Caught if judged.iter().any(|round| round.oversold > 0) => Self::Caught,
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

    fn clean() -> Round {
        Round { clean: true, ..Round::default() }
    }
    fn oversold() -> Round {
        Round { oversold: 3, ..Round::default() }
    }
    fn silent() -> Round {
        Round { could_not_judge: Some("no answer".to_owned()), ..Round::default() }
    }

    #[test]
    fn what_is_expected_follows_from_the_card() {
        use Expectation::{Caught, Clean};
        let expected = |breaks: Breaks| {
            [(Switch::On, 1), (Switch::On, 2), (Switch::Off, 1), (Switch::Off, 2)]
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
