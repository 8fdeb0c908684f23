//! The verdict on a cell: compares the record of every answer with the ledger, and audits the
//! ledger.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::in_time;
use super::load_generator::{Answer, AnswerKind, key};
use super::report::{Cell, Verdict};
use gates::Breaks;
use ledger::rows::orders::OrderRecord;
use shop_domain::audit::Report;
use shop_domain::{ArbiterMode, OrderStatus};

/// Violations of one kind that are listed; the rest is counted.
const EXAMPLES_MAX: usize = 3;

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
    /// Buyers, who take turns.
    pub buyers: u32,
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
    cell.lost = add_examples(&mut violations, lost(evidence));
    cell.phantom = add_examples(&mut violations, phantoms(evidence));
    cell.duplicates = add_examples(&mut violations, duplicates(evidence));
    let broken = evidence.report.findings.iter().filter(|finding| finding.holds == Some(false));
    violations.extend(broken.map(|finding| {
        format!("{} is broken ({}): {}.", finding.invariant, finding.claim, finding.detail)
    }));
    violations.extend(in_time::broken(evidence));
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

fn refused_by(answers: &[Answer]) -> BTreeMap<&'static str, u64> {
    let mut codes = BTreeMap::new();
    for answer in answers {
        if let AnswerKind::Refused(code) = answer.kind {
            *codes.entry(code).or_default() += 1;
        }
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
fn add_examples(violations: &mut Vec<String>, found: Vec<String>) -> u64 {
    let count = found.len();
    violations.extend(found.into_iter().take(EXAMPLES_MAX));
    if count > EXAMPLES_MAX {
        violations.push(format!("And {} more of these.", count - EXAMPLES_MAX));
    }
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Accepted answers without their order.
fn lost(evidence: &Evidence<'_>) -> Vec<String> {
    let ledger: HashMap<_, _> =
        evidence.orders.iter().map(|order| (order.id, order.status)).collect();
    let missing = evidence.answers.iter().filter_map(|answer| match answer.kind {
        AnswerKind::Accepted { order, queued } => match ledger.get(&order) {
            None => Some(format!("Order {order} was accepted and is not in the ledger.")),
            // A queued order may still be rejected; a sold one may not.
            Some(OrderStatus::Rejected) if !queued => {
                Some(format!("Order {order} was sold and then rejected."))
            }
            Some(OrderStatus::Queued) => Some(format!("Order {order} is still queued.")),
            Some(_) => None,
        },
        _ => None,
    });
    missing.collect()
}

/// Orders that belong to no accepted request and to none with an unknown outcome.
fn phantoms(evidence: &Evidence<'_>) -> Vec<String> {
    let answers: HashMap<String, AnswerKind> = evidence
        .answers
        .iter()
        .map(|answer| (key(answer.request).as_str().to_owned(), answer.kind))
        .collect();
    let phantoms = evidence.orders.iter().filter_map(|order| {
        let why = match answers.get(&order.request_key) {
            None => "belongs to no request",
            Some(AnswerKind::Refused(_) | AnswerKind::Unavailable) => {
                "belongs to a request that was refused"
            }
            Some(AnswerKind::Accepted { order: answered, .. }) if *answered != order.id => {
                "is not the one that its request was answered with"
            }
            Some(AnswerKind::Accepted { .. } | AnswerKind::Unknown) => return None,
        };
        Some(format!("Order {} {why}.", order.id))
    });
    phantoms.collect()
}

/// Second orders of one request, and second requests that were answered with one order.
fn duplicates(evidence: &Evidence<'_>) -> Vec<String> {
    let (mut keys, mut answered) = (HashSet::new(), HashSet::new());
    let second_orders = evidence
        .orders
        .iter()
        .filter(|order| !keys.insert(order.request_key.as_str()))
        .map(|order| format!("Order {} is a second one of its request.", order.id));
    let mut found: Vec<String> = second_orders.collect();
    for answer in evidence.answers {
        if let AnswerKind::Accepted { order, .. } = answer.kind
            && !answered.insert(order)
        {
            found.push(format!("Order {order} was given to two requests."));
        }
    }
    found
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
    match (arbiter, breaks_with) {
        _ if verdict == Verdict::NothingRan => None,
        (ArbiterMode::On, _) | (ArbiterMode::Off, Breaks::Never | Breaks::WithTwoInstances) => {
            Some(clean)
        }
        (ArbiterMode::Off, Breaks::Alone) => (!clean).then_some(true),
    }
}

#[cfg(test)]
mod tests;
