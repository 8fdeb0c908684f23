//! The result of one run as data. [`Report::document`] renders it for people.

mod document;
pub mod summary;

use serde::Serialize;
use serde_json::Value;

use crate::failure::{EXIT_BROKEN, EXIT_CLEAN};
use crate::options::RunOptions;
use crate::process::ProcessorUse;
use ledger_audit::{Database, FaultCounts, Judgement};

pub use document::findings;
pub use summary::TrafficSummary;

/// Everything about one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The result in one sentence, with the exit code.
    pub verdict: Verdict,
    /// What the figures depend on.
    pub circumstances: RunCircumstances,
    /// The traffic in figures.
    pub traffic: TrafficSummary,
    /// The audit of the ledger.
    pub audit: Judgement,
    /// What the service's own audit says, or why it says nothing.
    pub service_says: ServiceSays,
    /// The audits of all items; `audit` and `service_says` are of the first that is not clean, or of the first.
    pub items: JudgedItems,
}

/// The audits of all items of a run, added up.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JudgedItems {
    /// Items that were judged.
    pub judged: u32,
    /// Those that are not clean.
    pub unclean: u32,
    /// Items of which an order was not whole (I20).
    pub halved: u32,
    pub units_sold: i64,
    #[serde(flatten)]
    pub faults: FaultCounts,
    /// Lines whose answer was unknown once, and is known by a retry.
    pub settled_by_retry: i64,
}

impl JudgedItems {
    /// Adds the audit of one item.
    pub fn add(&mut self, audit: &Judgement, is_clean: bool) {
        self.judged += 1;
        self.unclean += u32::from(!is_clean);
        self.halved += u32::from(audit.broken().contains(&"I20"));
        self.units_sold += audit.units_live;
        self.faults = self.faults.with(audit.counts(), |sum, more| sum + more);
        self.settled_by_retry += audit.unknown.settled_by_retry;
    }
}

/// The result of a run: the last line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// 0 clean, 1 broken.
    pub exit_code: u8,
    /// For people.
    pub sentence: String,
}

/// The load of one run, and what its figures depend on.
#[derive(Debug, Clone, Serialize)]
pub struct RunCircumstances {
    /// UTC, RFC 3339.
    pub started_at: String,
    /// What was asked for.
    pub options: RunOptions,
    /// The first item that was sold.
    pub item_id: i64,
    /// Units on sale, of each item.
    pub stock: i64,
    /// Purchases that were planned.
    pub requests: usize,
    /// Units one buyer may have.
    pub per_buyer_limit: i64,
    /// `on`, `off`, or `unknown` for an existing item that does not tell.
    pub arbiter: &'static str,
    /// Addresses of the service.
    pub instances: Vec<String>,
    /// Repeats the plan.
    pub seed: u64,
    /// Cores of this machine.
    pub cores: usize,
    /// Processor time during the traffic.
    pub processor: ProcessorUse,
    /// Version and durability of the database.
    pub database: Database,
}

/// The service's own audit.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceSays {
    /// Its answer.
    Audit(Value),
    /// Why there is no answer.
    Nothing(String),
}

impl ServiceSays {
    /// What it says of one invariant: whether it holds, and its figures.
    pub fn of(&self, invariant: &str) -> Option<(Option<bool>, String)> {
        let Self::Audit(audit) = self else {
            return None;
        };
        let mut findings = audit["findings"].as_array()?.iter();
        let finding = findings.find(|finding| finding["invariant"] == invariant)?;
        let detail = finding["detail"].as_str().unwrap_or_default().to_owned();
        Some((finding["holds"].as_bool(), detail))
    }

    /// The invariants that the service says are broken.
    pub fn broken(&self) -> Vec<&str> {
        let Self::Audit(audit) = self else {
            return Vec::new();
        };
        let findings = audit["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let broken = findings.iter().filter(|finding| finding["holds"] == false);
        broken.filter_map(|finding| finding["invariant"].as_str()).collect()
    }
}

impl Verdict {
    /// Whether neither audit has found a fault. The service's word is no proof that something holds, but its own alarm
    /// counts.
    pub fn is_clean(audit: &Judgement, service_says: &ServiceSays) -> bool {
        audit.is_clean() && service_says.broken().is_empty()
    }

    /// Clean or broken; with `expect_oversell` only a caught oversell is a success.
    pub fn of(
        audit: &Judgement,
        service_says: &ServiceSays,
        stock: i64,
        items: &JudgedItems,
        expect_oversell: bool,
    ) -> Self {
        let oversold = audit.oversold.count;
        if expect_oversell {
            return if oversold > 0 {
                let sentence = format!("caught as expected: {oversold} units oversold of {stock}");
                Self { exit_code: EXIT_CLEAN, sentence }
            } else {
                let sentence = format!(
                    "the control was not caught: {} units sold of {stock}, none oversold; raise --concurrency or try again",
                    audit.units_live
                );
                Self { exit_code: EXIT_BROKEN, sentence }
            };
        }
        let ours = audit.broken();
        let mut broken: Vec<String> =
            ours.iter().map(|invariant| (*invariant).to_owned()).collect();
        let alarms = service_says.broken().into_iter().filter(|alarm| !ours.contains(alarm));
        broken.extend(alarms.map(|alarm| format!("{alarm} (the service says so)")));
        if Self::is_clean(audit, service_says) {
            let sold = items.units_sold;
            let of = stock * i64::from(items.judged);
            let items = match items.judged {
                0 | 1 => String::new(),
                many => format!(" over {many} items"),
            };
            let sentence =
                format!("clean: {sold} units sold of {of}{items}; nothing oversold, nothing lost");
            return Self { exit_code: EXIT_CLEAN, sentence };
        }
        let mut faults = named_faults(audit);
        if faults.is_empty() {
            faults.push(format!("{} units sold of {stock}", audit.units_live));
        }
        let mut sentence = format!("BROKEN: {}", faults.join(", "));
        if !broken.is_empty() {
            sentence = format!("{sentence}; broken: {}", broken.join(", "));
        }
        Self { exit_code: EXIT_BROKEN, sentence }
    }
}

fn named_faults(audit: &Judgement) -> Vec<String> {
    // With the arbiter off the limit is counted but not judged.
    let limit_judged = audit.broken().contains(&"I2");
    let over_limit = if limit_judged { audit.over_limit.count } else { 0 };
    [
        (audit.oversold.count, "units oversold"),
        (audit.undersold.count, "units undersold"),
        (audit.lost.count, "orders lost"),
        (audit.phantom.count, "phantom orders"),
        (audit.duplicates.count, "duplicates"),
        (over_limit, "buyers over the limit"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, name)| format!("{count} {name}"))
    .collect()
}

#[cfg(test)]
mod tests {
    use ledger_audit::{Faults, Finding, State};
    use serde_json::json;

    use super::*;

    /// An audit of one invariant, with this number of oversold units.
    fn audit(state: State, oversold: i64) -> Judgement {
        let finding = Finding {
            invariant: "I8",
            claim: "",
            state,
            detail: String::new(),
            examples: Vec::new(),
        };
        Judgement {
            findings: vec![finding],
            units_live: 3,
            units_accepted: 3,
            oversold: Faults { count: oversold, ..Faults::default() },
            ..Judgement::default()
        }
    }

    fn exit_code(audit: &Judgement, service_says: &ServiceSays, expect_oversell: bool) -> u8 {
        Verdict::of(audit, service_says, 3, &JudgedItems::default(), expect_oversell).exit_code
    }

    #[test]
    fn one_broken_invariant_or_an_alarm_of_the_service_breaks() {
        let silent = ServiceSays::Nothing("it has no audit".to_owned());
        let sound = audit(State::Holds, 0);
        assert_eq!(exit_code(&sound, &silent, false), EXIT_CLEAN);
        assert_eq!(exit_code(&audit(State::Broken, 0), &silent, false), EXIT_BROKEN);
        assert_eq!(exit_code(&audit(State::Holds, 1), &silent, false), EXIT_BROKEN);
        for invariant in ["I2", "I6", "I7", "I20"] {
            let says = |holds: bool| {
                let finding = json!({ "invariant": invariant, "holds": holds, "detail": "" });
                ServiceSays::Audit(json!({ "findings": [finding] }))
            };
            assert_eq!(exit_code(&sound, &says(true), false), EXIT_CLEAN);
            assert_eq!(exit_code(&sound, &says(false), false), EXIT_BROKEN, "{invariant}");
        }
    }

    /// The report shows the first unclean item: one without an answer must not hide a broken one.
    #[test]
    fn an_item_of_which_the_service_says_nothing_is_no_unclean_one() {
        let silent = ServiceSays::Nothing("no answer in time".to_owned());
        assert!(Verdict::is_clean(&audit(State::Holds, 0), &silent));
        assert!(!Verdict::is_clean(&audit(State::Holds, 1), &silent));
    }

    /// Where an oversell is expected, a sale without one is a failure.
    #[test]
    fn an_expected_oversell_that_is_not_caught_breaks() {
        let silent = ServiceSays::Nothing("it has no audit".to_owned());
        assert_eq!(exit_code(&audit(State::Broken, 2), &silent, true), EXIT_CLEAN);
        assert_eq!(exit_code(&audit(State::Holds, 0), &silent, true), EXIT_BROKEN);
    }
}
