//! The verdict on a cell: the record of every answer against the ledger, by the rules of
//! `crates/ledger-audit` that judge load tests too, and the service's audit of the ledger.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ledger_audit::{
    Answer, Expectation, Faults, Finding, History, InTime, Judgement, Ledger, Order, Outcome,
    State, judge_in_time, judge_record,
};

use crate::report::{Cell, Verdict};
use gates::Breaks;
use ledger::rows::orders::OrderRecord;
use shop_domain::ArbiterMode;
use shop_domain::audit::Report;

/// Violations of one kind that are listed; the rest is counted.
const EXAMPLES_MAX: usize = 3;
/// The lab buys in this process only.
const INSTANCES: usize = 1;

/// The data that the verdict on a cell follows from.
pub struct Evidence<'a> {
    /// Every answer.
    pub answers: &'a [Answer],
    /// Every order of the item.
    pub orders: &'a [OrderRecord],
    /// The audit of the item, from the ledger alone.
    pub report: &'a Report,
    /// Units that were put on sale.
    pub stock: i64,
    /// Units of each purchase.
    pub quantity: i64,
    /// How old the word "sold out" may be.
    pub sold_out_age: Duration,
    /// The number of instances that breaks the gate.
    pub breaks_with: Breaks,
}

/// Writes the counts, the violations and the verdict into the cell.
pub fn evaluate(cell: &mut Cell, evidence: &Evidence<'_>) {
    let facts = &evidence.report.facts;
    cell.refused_by = refused_by(evidence.answers);
    cell.sold = facts.units_sold + facts.units_held;
    cell.available = facts.available;
    cell.oversold = evidence.report.units_oversold();
    cell.undersold = undersold(cell, evidence);
    let mut violations = Vec::new();
    if cell.oversold > 0 {
        violations.push(format!("{} units were sold of {}.", cell.sold, facts.total));
    }
    if cell.undersold > 0 {
        violations.push(format!(
            "{} units were left while buyers were answered \"sold out\".",
            cell.undersold
        ));
    }
    let (record, in_time) = judged(evidence);
    cell.lost = add_examples(&mut violations, [record.lost, record.altered]);
    cell.phantom = add_examples(&mut violations, [record.phantom, record.despite_refusal]);
    cell.duplicates = add_examples(&mut violations, [record.duplicates]);
    let findings = evidence.report.findings.iter().filter(|finding| finding.holds == Some(false));
    violations.extend(findings.map(|finding| {
        format!("{} is broken ({}): {}.", finding.invariant, finding.claim, finding.detail)
    }));
    violations.extend(in_time.iter().filter(|finding| finding.state == State::Broken).map(broken));
    let verdict = verdict(cell, !violations.is_empty());
    cell.violations = violations;
    cell.verdict = Some(verdict);
    cell.as_declared = as_declared(facts.arbiter, evidence.breaks_with, verdict);
    if cell.as_declared.is_none() && verdict == Verdict::Clean {
        note(cell, "The gate is known to break; no race happened this time.");
    }
    let turned_away = cell.unavailable + cell.unknown;
    if turned_away > 0 && cell.available >= evidence.quantity {
        note(cell, &format!("{turned_away} purchases were not served while units were left."));
    }
}

/// Adds a sentence.
pub fn note(cell: &mut Cell, sentence: &str) {
    if !cell.note.is_empty() {
        cell.note.push(' ');
    }
    cell.note.push_str(sentence);
}

fn refused_by(answers: &[Answer]) -> BTreeMap<String, u64> {
    let mut codes = BTreeMap::new();
    for answer in answers.iter().filter(|answer| answer.outcome == Outcome::Refused) {
        *codes.entry(answer.code.clone()).or_default() += 1;
    }
    codes
}

/// Units left, by the orders, that the purchases refused as "sold out" could have had as a whole.
fn undersold(cell: &Cell, evidence: &Evidence<'_>) -> i64 {
    let left = (evidence.report.facts.total - cell.sold).max(0);
    let refused = cell.refused_by.get("sold_out").copied().unwrap_or(0);
    let wanted = i64::try_from(refused).unwrap_or(i64::MAX).saturating_mul(evidence.quantity);
    (left - left % evidence.quantity).min(wanted)
}

/// Adds the first sentences to the violations; the number of all.
fn add_examples<const N: usize>(violations: &mut Vec<String>, found: [Faults; N]) -> u64 {
    let count: i64 = found.iter().map(|faults| faults.count).sum();
    let examples = found.into_iter().flat_map(|faults| faults.examples).take(EXAMPLES_MAX);
    let examples: Vec<String> = examples.map(|example| format!("{example}.")).collect();
    let more = usize::try_from(count).unwrap_or(usize::MAX) - examples.len();
    violations.extend(examples);
    if more > 0 {
        violations.push(format!("And {more} more of these."));
    }
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// What the audit of load tests says about the record of answers and about the order of time (I16):
/// whoever was told "sold out" could be told so at that time.
fn judged(evidence: &Evidence<'_>) -> (Judgement, Vec<Finding>) {
    let requests = evidence.answers.iter().map(|answer| (answer.key.as_deref(), answer.buyer));
    let buyers: HashMap<_, _> = requests.collect();
    let orders = evidence.orders.iter().map(|order| Order {
        id: order.id.to_string(),
        // One that belongs to no request counts from the start.
        buyer: buyers.get(&Some(order.request_key.as_str())).copied().unwrap_or(0),
        quantity: evidence.quantity,
        status: order.status.as_str().to_owned(),
        key: Some(order.request_key.clone()),
        fence: None,
    });
    let after = Ledger { item_exists: true, orders: orders.collect(), ..Ledger::default() };
    let evidence = ledger_audit::Evidence {
        per_buyer_limit: i64::MAX,
        quantity: evidence.quantity,
        arbiter_on: evidence.report.facts.arbiter == ArbiterMode::On,
        in_time: Some(InTime { history: &History::default(), sold_out_age: evidence.sold_out_age }),
        ..ledger_audit::Evidence::of(evidence.stock, &after, evidence.answers)
    };
    (judge_record(&evidence), judge_in_time(&evidence))
}

/// The sentence on a broken rule, with an example.
fn broken(finding: &Finding) -> String {
    let Finding { invariant, claim, detail, .. } = finding;
    let example = finding.examples.first().map_or("", String::as_str);
    format!("{invariant} is broken ({claim}): {detail}. {example}.")
}

fn verdict(cell: &Cell, violated: bool) -> Verdict {
    let sold_out = cell.refused_by.get("sold_out").copied().unwrap_or(0);
    if cell.oversold > 0 {
        Verdict::Oversold
    } else if cell.lost > 0 {
        Verdict::Lost
    } else if cell.undersold > 0 {
        Verdict::Undersold
    } else if violated {
        Verdict::Inconsistent
    } else if cell.accepted + cell.unknown + sold_out == 0 {
        Verdict::NothingRan
    } else {
        Verdict::Clean
    }
}

/// Whether the verdict is the one that the card declares; `None` when it proves neither, since a
/// gate that breaks need not do so every time.
fn as_declared(arbiter: ArbiterMode, breaks_with: Breaks, verdict: Verdict) -> Option<bool> {
    let clean = verdict == Verdict::Clean;
    match declared(breaks_with).expectation(arbiter == ArbiterMode::On, INSTANCES) {
        _ if verdict == Verdict::NothingRan => None,
        Expectation::Clean => Some(clean),
        Expectation::Caught => (!clean).then_some(true),
    }
}

/// What the card declares, in the words of the audit, which knows no code of the service.
fn declared(breaks_with: Breaks) -> ledger_audit::Breaks {
    match breaks_with {
        Breaks::Never => ledger_audit::Breaks::Never,
        Breaks::Alone => ledger_audit::Breaks::Alone,
        Breaks::WithTwoInstances => ledger_audit::Breaks::WithTwoInstances,
    }
}

#[cfg(test)]
mod tests;
