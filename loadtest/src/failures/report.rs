//! The report of `break`.

use serde::Serialize;

use super::Trial;
use crate::circumstances::Circumstances;
use crate::document::{Document, Table};
use crate::failure::{EXIT_BROKEN, EXIT_CLEAN, EXIT_COULD_NOT_JUDGE};

/// The share of tries without the remedy that must show the failure. With it, all must hold.
const REPRODUCED_SHARE_MIN: f64 = 0.95;

/// All tries of one experiment.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    pub name: &'static str,
    pub failure: &'static str,
    pub cure: &'static str,
    pub times: u32,
    pub reproduced: u32,
    pub held: u32,
    /// Tries that could not be judged, and why.
    pub unjudged: Vec<String>,
    /// The last try without the remedy, and the last one with it.
    pub without: Option<Trial>,
    pub with: Option<Trial>,
}

impl Outcome {
    /// Whether it broke without its remedy, and held with it.
    pub fn is_as_expected(&self) -> bool {
        f64::from(self.reproduced) >= f64::from(self.times) * REPRODUCED_SHARE_MIN
            && self.held == self.times
    }
}

/// Circumstances and outcomes of one call.
#[derive(Serialize)]
pub struct Report {
    pub circumstances: Circumstances,
    pub experiments: Vec<Outcome>,
}

/// 0 when all went as expected; an empty run proves nothing.
pub fn exit_code(experiments: &[Outcome]) -> u8 {
    if experiments.is_empty() {
        return EXIT_COULD_NOT_JUDGE;
    }
    if experiments.iter().all(Outcome::is_as_expected) {
        return EXIT_CLEAN;
    }
    let unexplained =
        experiments.iter().any(|outcome| !outcome.is_as_expected() && outcome.unjudged.is_empty());
    if unexplained { EXIT_BROKEN } else { EXIT_COULD_NOT_JUDGE }
}

impl Report {
    /// The report for people.
    pub fn document(&self) -> Document {
        let mut document = Document::new("Known failures, and what prevents them");
        document.facts(self.circumstances.rows());
        let mut table = Table::new([
            "experiment",
            "reproduced",
            "remedy held",
            "without: sold of stock",
            "with: sold of stock",
        ]);
        self.experiments.iter().for_each(|outcome| table.row(outcome.row()));
        document.table(table);
        for outcome in &self.experiments {
            document.heading(outcome.name);
            document.paragraph(outcome.failure);
            document.list(outcome.remarks());
        }
        document
    }
}

impl Outcome {
    fn row(&self) -> [String; 5] {
        let sold = |trial: &Option<Trial>| {
            let of_stock = |trial: &Trial| format!("{} of {}", trial.sold, trial.stock);
            trial.as_ref().map_or_else(|| "-".to_owned(), of_stock)
        };
        let tries = |count: u32| format!("{count} of {}", self.times);
        [
            format!("`{}`", self.name),
            tries(self.reproduced),
            tries(self.held),
            sold(&self.without),
            sold(&self.with),
        ]
    }

    fn remarks(&self) -> Vec<String> {
        let told = |label: &str, trial: &Option<Trial>| {
            let Trial { stock, sold, detail, .. } = trial.as_ref()?;
            Some(format!("{label}: {sold} units sold of {stock}; {detail}."))
        };
        let mut remarks: Vec<String> =
            told("Without the remedy", &self.without).into_iter().collect();
        remarks.push(format!("The remedy: {}", self.cure));
        remarks.extend(told("With the remedy", &self.with));
        remarks
            .extend(self.unjudged.iter().map(|reason| format!("Could not be judged, {reason}.")));
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(times: u32, reproduced: u32, held: u32) -> Outcome {
        Outcome {
            name: "x",
            failure: "",
            cure: "",
            times,
            reproduced,
            held,
            unjudged: Vec::new(),
            without: None,
            with: None,
        }
    }

    #[test]
    fn nineteen_of_twenty_are_enough_to_break_and_twenty_to_hold() {
        assert!(outcome(20, 19, 20).is_as_expected());
        assert!(!outcome(20, 18, 20).is_as_expected());
        assert!(!outcome(20, 20, 19).is_as_expected());
        assert!(!outcome(3, 2, 3).is_as_expected());
    }

    /// An experiment that shows nothing, or whose remedy does not hold, is never a success.
    #[test]
    fn the_exit_code_tells_what_did_not_go_as_expected() {
        let good = || outcome(20, 20, 20);
        let unjudged = Outcome { unjudged: vec!["no answer".to_owned()], ..outcome(20, 18, 20) };
        assert_eq!(exit_code(&[good()]), EXIT_CLEAN);
        assert_eq!(exit_code(&[good(), outcome(20, 0, 20)]), EXIT_BROKEN);
        assert_eq!(exit_code(&[good(), outcome(20, 20, 19)]), EXIT_BROKEN);
        assert_eq!(exit_code(&[good(), unjudged]), EXIT_COULD_NOT_JUDGE);
        assert_eq!(exit_code(&[]), EXIT_COULD_NOT_JUDGE);
    }
}
