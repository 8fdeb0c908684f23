//! The verdict on a cell: compares the record of every answer with the ledger, and audits the
//! ledger.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::load_generator::{Answer, AnswerKind, key};
use super::report::{Cell, Verdict};
use crate::domain::audit::Report;
use crate::domain::{ArbiterMode, OrderStatus};
use crate::store::mysql::orders::Recorded;
use crate::strategy::Breaks;

/// Violations of one kind that are listed; the rest is counted.
const EXAMPLES_MAX: usize = 3;

/// The data that the verdict on a cell follows from.
pub struct Evidence<'a> {
    /// Every answer.
    pub answers: &'a [Answer],
    /// Every order of the item.
    pub orders: &'a [Recorded],
    /// The audit of the item, from the ledger alone.
    pub report: &'a Report,
    /// Units of each purchase.
    pub quantity: i64,
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
mod tests {
    use super::*;
    use crate::domain::audit::{self, Facts};
    use crate::domain::{ItemId, OrderId};
    use crate::lab::plan::{Chosen, Plan};
    use crate::lab::report::{Arbiters, Wanted};

    struct Case {
        answers: Vec<Answer>,
        orders: Vec<Recorded>,
        arbiter: ArbiterMode,
        breaks_with: Breaks,
    }

    impl Case {
        /// Two units, both sold, and one buyer who came too late.
        fn fine() -> Self {
            let ids = [OrderId::generate(), OrderId::generate()];
            let orders = ids.iter().zip(0..).map(|(&id, request)| Recorded {
                id,
                request_key: key(request).as_str().to_owned(),
                status: OrderStatus::Pending,
            });
            let accepted =
                ids.map(|order| AnswerKind::Accepted { order, queued: false }).into_iter().zip(0..);
            let late = (AnswerKind::Refused("sold_out"), 2);
            let answers = accepted.chain([late]);
            Self {
                answers: answers
                    .map(|(kind, request)| Answer { request, kind, micros: 1 })
                    .collect(),
                orders: orders.collect(),
                arbiter: ArbiterMode::Off,
                breaks_with: Breaks::Never,
            }
        }

        fn evaluated(&self) -> Cell {
            let live = self.orders.iter().filter(|order| order.status.holds_stock()).count();
            let held = i64::try_from(live).expect("a few");
            let facts = Facts {
                item_id: ItemId::new(1).expect("positive"),
                arbiter: self.arbiter,
                total: 2,
                available: 2 - held,
                units_sold: 0,
                units_held: held,
                orders: held,
                buyers_over_limit: 0,
                buyers_miscounted: 0,
                movements_sum: -held,
                orders_without_their_movements: 0,
                movements_without_order: 0,
                give_backs_wrong: 0,
                fences_fallen: 0,
                fences_above_accepted: 0,
                fences_not_compared: 0,
                offered: 0,
                offers_open: 0,
                offers_without_their_orders: 0,
                places_overtaken: 0,
                waiting_in_vain: 0,
                is_grouped: false,
                group_buyers_over_limit: 0,
                group_buyers_miscounted: 0,
                redis_available: None,
                redis_queued: 0,
                redis_buckets: None,
            };
            let wanted = Wanted {
                strategies: vec!["mysql-atomic".to_owned()],
                stock: 2,
                buyers: 3,
                requests: 3,
                concurrency: 3,
                arbiter: Arbiters::Off,
                rounds: 1,
                quantity: 1,
                seconds_max: 1,
            };
            let chosen = vec![Chosen::parse("mysql-atomic").expect("known")];
            let (mut cell, _) = Plan { wanted, chosen }.cells().remove(0);
            for answer in &self.answers {
                match answer.kind {
                    AnswerKind::Accepted { .. } => cell.accepted += 1,
                    AnswerKind::Refused(_) => cell.refused += 1,
                    AnswerKind::Unavailable => cell.unavailable += 1,
                    AnswerKind::Unknown => cell.unknown += 1,
                }
            }
            let evidence = Evidence {
                answers: &self.answers,
                orders: &self.orders,
                report: &audit::verify(facts),
                quantity: 1,
                breaks_with: self.breaks_with,
            };
            evaluate(&mut cell, &evidence);
            cell
        }

        fn verdict(&self) -> Verdict {
            self.evaluated().verdict.expect("evaluated")
        }
    }

    fn one_more(orders: &[Recorded], request: u32) -> Recorded {
        let request_key = key(request).as_str().to_owned();
        Recorded { id: OrderId::generate(), request_key, ..orders[0].clone() }
    }

    #[test]
    fn a_sale_that_went_well_is_clean() {
        let cell = Case::fine().evaluated();
        assert_eq!((cell.verdict, cell.as_declared), (Some(Verdict::Clean), Some(true)));
        assert!(cell.violations.is_empty(), "{:?}", cell.violations);
    }

    #[test]
    fn each_planted_fault_is_named() {
        let mut oversold = Case::fine();
        oversold.orders.push(one_more(&oversold.orders, 2));
        let cell = oversold.evaluated();
        assert_eq!((cell.oversold, cell.verdict), (1, Some(Verdict::Oversold)));
        assert_eq!((cell.phantom, cell.as_declared), (1, Some(false)), "it was refused");

        let mut lost = Case::fine();
        lost.orders.pop();
        assert_eq!((lost.evaluated().lost, lost.verdict()), (1, Verdict::Lost));

        let mut undersold = Case::fine();
        undersold.orders.pop();
        undersold.answers.remove(1);
        assert_eq!((undersold.evaluated().undersold, undersold.verdict()), (1, Verdict::Undersold));

        let mut swapped = Case::fine();
        swapped.orders[1] = one_more(&swapped.orders, 9);
        swapped.answers.remove(1);
        assert_eq!((swapped.evaluated().phantom, swapped.verdict()), (1, Verdict::Inconsistent));

        let mut twice = Case::fine();
        twice.answers[1].kind = twice.answers[0].kind;
        assert_eq!(twice.evaluated().duplicates, 1);
    }

    #[test]
    fn nothing_that_ran_is_never_clean() {
        let mut nothing = Case::fine();
        nothing.orders.clear();
        nothing.answers.clear();
        assert_eq!(
            (nothing.verdict(), nothing.evaluated().as_declared),
            (Verdict::NothingRan, None)
        );
        nothing.answers = vec![Answer { request: 0, kind: AnswerKind::Unavailable, micros: 1 }];
        assert_eq!(nothing.verdict(), Verdict::NothingRan);
    }

    #[test]
    fn a_queued_order_may_be_rejected_and_a_sold_one_may_not() {
        let mut rejected = Case::fine();
        rejected.orders[1].status = OrderStatus::Rejected;
        rejected.answers.truncate(2);
        assert_eq!(rejected.verdict(), Verdict::Lost);
        if let AnswerKind::Accepted { queued, .. } = &mut rejected.answers[1].kind {
            *queued = true;
        }
        assert_eq!(rejected.verdict(), Verdict::Clean);
        rejected.orders[1].status = OrderStatus::Queued;
        assert_eq!(rejected.verdict(), Verdict::Lost);
    }

    #[test]
    fn a_broken_gate_need_not_break_and_the_arbiter_excuses_nothing() {
        let mut lucky = Case::fine();
        lucky.breaks_with = Breaks::Alone;
        assert_eq!(lucky.evaluated().as_declared, None);
        lucky.orders.push(one_more(&lucky.orders, 2));
        assert_eq!(lucky.evaluated().as_declared, Some(true));
        lucky.arbiter = ArbiterMode::On;
        assert_eq!(lucky.evaluated().as_declared, Some(false));
    }
}
