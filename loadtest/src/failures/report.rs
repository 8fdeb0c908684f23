//! What the experiments showed.

use std::fmt::Write;

use serde::Serialize;

use super::Trial;
use crate::circumstances::Circumstances;
use crate::failure::{EXIT_BROKEN, EXIT_CLEAN, EXIT_COULD_NOT_JUDGE};

/// Of so many tries, this share must show the failure; its cure must hold in all.
const REPRODUCED_SHARE_MIN: f64 = 0.95;

/// All tries of one experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub name: &'static str,
    pub failure: &'static str,
    pub cure: &'static str,
    pub times: u32,
    pub reproduced: u32,
    pub held: u32,
    /// Tries that could not be judged, and why.
    pub unjudged: Vec<String>,
    /// The last try without the cure, and with it.
    pub without: Option<Trial>,
    pub with: Option<Trial>,
    /// Why it was not tried.
    pub left_out: Option<String>,
}

impl Outcome {
    /// Whether it broke without its cure, and held with it.
    pub fn is_as_expected(&self) -> bool {
        f64::from(self.reproduced) >= f64::from(self.times) * REPRODUCED_SHARE_MIN
            && self.held == self.times
    }
}

/// Everything about one call.
#[derive(Serialize)]
pub struct Report {
    pub circumstances: Circumstances,
    pub experiments: Vec<Outcome>,
}

impl Report {
    /// Nothing tried is nothing proved.
    pub fn exit_code(&self) -> u8 {
        let tried: Vec<&Outcome> =
            self.experiments.iter().filter(|outcome| outcome.left_out.is_none()).collect();
        if tried.is_empty() {
            return EXIT_COULD_NOT_JUDGE;
        }
        if tried.iter().all(|outcome| outcome.is_as_expected()) {
            return EXIT_CLEAN;
        }
        let unexplained =
            tried.iter().any(|outcome| !outcome.is_as_expected() && outcome.unjudged.is_empty());
        if unexplained { EXIT_BROKEN } else { EXIT_COULD_NOT_JUDGE }
    }
}

/// The page.
pub fn render(outcomes: &[Outcome], circumstances: &Circumstances) -> String {
    let mut text = String::from("# Known failures, and what saves them\n\n");
    push(&mut text, "| circumstance | |\n|---|---|\n");
    for (name, value) in circumstances.rows() {
        push(&mut text, &format!("| {name} | {value} |\n"));
    }
    push(
        &mut text,
        "\n| experiment | reproduced | cure held | without: sold of stock | with: sold of stock |\n|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let sold = |trial: &Option<Trial>| {
            trial.as_ref().map_or_else(
                || "-".to_owned(),
                |trial| format!("{} of {}", trial.sold, trial.stock),
            )
        };
        let row = if outcome.left_out.is_some() {
            format!("| `{}` | not tried | not tried | - | - |\n", outcome.name)
        } else {
            format!(
                "| `{}` | {} of {} | {} of {} | {} | {} |\n",
                outcome.name,
                outcome.reproduced,
                outcome.times,
                outcome.held,
                outcome.times,
                sold(&outcome.without),
                sold(&outcome.with)
            )
        };
        push(&mut text, &row);
    }
    for outcome in outcomes {
        push(&mut text, &format!("\n## {}\n\n{}\n", outcome.name, outcome.failure));
        if let Some(reason) = &outcome.left_out {
            push(&mut text, &format!("\nNot tried: {reason}.\n"));
            continue;
        }
        if let Some(trial) = &outcome.without {
            push(
                &mut text,
                &format!(
                    "\n* Without: {} units sold of {}; {}.\n",
                    trial.sold, trial.stock, trial.detail
                ),
            );
        }
        push(&mut text, &format!("* What saves it: {}\n", outcome.cure));
        if let Some(trial) = &outcome.with {
            push(
                &mut text,
                &format!(
                    "* With: {} units sold of {}; {}.\n",
                    trial.sold, trial.stock, trial.detail
                ),
            );
        }
        for reason in &outcome.unjudged {
            push(&mut text, &format!("* Could not be judged, {reason}.\n"));
        }
    }
    text
}

fn push(text: &mut String, part: &str) {
    text.write_str(part).expect("writing to a string does not fail");
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
            left_out: None,
        }
    }

    #[test]
    fn nineteen_of_twenty_are_enough_to_break_and_twenty_to_hold() {
        assert!(outcome(20, 19, 20).is_as_expected());
        assert!(!outcome(20, 18, 20).is_as_expected());
        assert!(!outcome(20, 20, 19).is_as_expected());
        assert!(!outcome(3, 2, 3).is_as_expected());
    }
}
