//! The audit's part of the report for people.

use super::text::{Color, line};
use super::{Report, ServiceSays};
use ledger_audit::{Faults, State};

/// Writes every invariant, then the counts of faults.
pub fn audit(text: &mut String, report: &Report, color: Color) {
    let audit = &report.audit;
    line(text, "\nAudit");
    for finding in &audit.findings {
        let word = match finding.state {
            State::Holds => color.green("holds     "),
            State::Broken => color.red("BROKEN    "),
            State::NotJudged => "not judged".to_owned(),
        };
        line(
            text,
            &format!("  {:<4}{word}  {}: {}", finding.invariant, finding.claim, finding.detail),
        );
        for example in &finding.examples {
            line(text, &format!("                    {example}"));
        }
        if finding.state == State::NotJudged {
            service_says(text, &report.service_says, finding.invariant);
        }
    }
    if let ServiceSays::Nothing(reason) = &report.service_says {
        line(text, &format!("  the service's own audit says nothing: {reason}"));
    }
    let unknown = &audit.unknown;
    if unknown.purchases + unknown.settled_by_retry > 0 {
        line(
            text,
            &format!(
                "  unknown outcomes: {} purchases, of which {} took effect and {} did not; {} more were settled by a retry",
                unknown.purchases, unknown.took_effect, unknown.no_effect, unknown.settled_by_retry
            ),
        );
    }
    line(text, "");
    let faults = [
        ("oversold", &audit.oversold),
        ("undersold", &audit.undersold),
        ("lost", &audit.lost),
        ("phantom", &audit.phantom),
        ("duplicates", &audit.duplicates),
        ("over limit", &audit.over_limit),
    ];
    let counts: Vec<String> =
        faults.iter().map(|(name, faults)| format!("{name} {}", faults.count)).collect();
    line(text, &format!("  sold {} units; {}", audit.units_live, counts.join(", ")));
    for (name, faults) in faults {
        examples(text, name, faults);
    }
}

fn service_says(text: &mut String, says: &ServiceSays, invariant: &str) {
    if let Some((holds, detail)) = says.of(invariant) {
        let word = match holds {
            Some(true) => "it holds",
            Some(false) => "it is BROKEN",
            None => "not judged",
        };
        line(text, &format!("                    the service says: {word} ({detail})"));
    }
}

fn examples(text: &mut String, name: &str, faults: &Faults) {
    // Those of lost, phantom and duplicates stand under their invariants already.
    if matches!(name, "oversold" | "over limit") {
        for example in &faults.examples {
            line(text, &format!("    {name}: {example}"));
        }
    }
}
