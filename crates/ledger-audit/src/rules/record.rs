//! I8 to I12: the ledger against the record of every answer.
//!
//! Everything is matched by order id, buyer and key, one by one. Totals are never compared: a
//! lost and a phantom order would cancel out.

use std::collections::{HashMap, HashSet};

use super::attribution::attribute;
use super::purchase::{Index, Purchase, index, purchases};
use super::undersold::{sold_out, undersold};
use crate::report::EXAMPLES_MAX;
use crate::{Answer, Evidence, Faults, Finding, Judgement};

/// Judges I8 to I12.
pub fn judge(evidence: &Evidence<'_>) -> Judgement {
    let purchases = purchases(evidence.answers);
    let index = index(evidence);
    let (lost, altered) = accepted_in_ledger(evidence, &purchases, &index);
    let (phantom, despite_refusal, unknown) = attribute(&purchases, &index);
    let duplicates = duplicates(&purchases, &index);
    let undersold = undersold(evidence);
    let accepted = purchases.iter().filter(|purchase| purchase.accepted().is_some()).count();
    let mut unkept = Faults { count: lost.count + altered.count, examples: lost.examples.clone() };
    unkept.examples.extend(altered.examples.iter().cloned());
    unkept.examples.truncate(EXAMPLES_MAX);
    let findings = vec![
        Finding::judged(
            "I8",
            "every accepted answer is in the ledger",
            format!("{accepted} accepted, {} lost, {} altered", lost.count, altered.count),
            unkept,
        ),
        Finding::judged(
            "I9",
            "every order in the ledger was attempted",
            format!("{} new orders, {} phantom", index.new.len(), phantom.count),
            phantom.clone(),
        ),
        one_order_per_key(evidence.answers, &duplicates),
        Finding::judged(
            "I11",
            "a definite refusal never took effect",
            format!("{} refused but in the ledger", despite_refusal.count),
            despite_refusal.clone(),
        ),
        sold_out(evidence, undersold.clone()),
    ];
    let units_accepted =
        purchases.iter().filter_map(Purchase::accepted).map(|answer| answer.units(evidence)).sum();
    Judgement {
        findings,
        units_accepted,
        undersold,
        lost,
        altered,
        phantom,
        despite_refusal,
        duplicates,
        unknown,
        ..Judgement::default()
    }
}

/// I8: accepted orders that the ledger lacks, or has with other values than the answer.
fn accepted_in_ledger(
    evidence: &Evidence<'_>,
    purchases: &[Purchase<'_>],
    index: &Index<'_>,
) -> (Faults, Faults) {
    let mut lost = Faults::default();
    let mut altered = Faults::default();
    for purchase in purchases {
        let Some(answer) = purchase.accepted() else {
            continue;
        };
        let Some(id) = answer.order_id.as_deref() else {
            lost.add(format_args!("{}: accepted without an order id", purchase.name()));
            continue;
        };
        let Some(order) = index.by_id.get(id) else {
            lost.add(format_args!("{}: order {id} is not in the ledger", purchase.name()));
            continue;
        };
        if order.status == "rejected" && answer.status != 202 {
            lost.add(format_args!("{}: order {id} was sold and is now rejected", purchase.name()));
        } else if order.status == "queued" {
            altered.add(format_args!("{}: order {id} is still queued", purchase.name()));
        } else if order.buyer != purchase.buyer {
            altered.add(format_args!(
                "{}: order {id} belongs to buyer {}",
                purchase.name(),
                order.buyer
            ));
        } else if order.quantity != evidence.quantity || order.quantity != answer.units(evidence) {
            altered.add(format_args!(
                "{}: order {id} has quantity {}, asked were {}",
                purchase.name(),
                order.quantity,
                evidence.quantity
            ));
        } else if purchase.key.is_some() && order.key.as_deref() != purchase.key {
            altered.add(format_args!(
                "{}: order {id} carries the key {}",
                purchase.name(),
                order.key_shown()
            ));
        }
    }
    (lost, altered)
}

/// I10: keys with several orders, purchases answered with several, orders handed out twice.
fn duplicates(purchases: &[Purchase<'_>], index: &Index<'_>) -> Faults {
    let mut faults = Faults::default();
    let mut keys: Vec<_> = index.by_key.iter().filter(|(_, orders)| orders.len() > 1).collect();
    keys.sort_unstable_by_key(|(key, _)| **key);
    for ((buyer, key), orders) in keys {
        faults.add(format_args!("buyer {buyer}, key {key}: {} orders", orders.len()));
    }
    let mut owner: HashMap<&str, &Purchase<'_>> = HashMap::new();
    for purchase in purchases {
        let ids: HashSet<&str> =
            purchase.answers.iter().filter_map(|answer| answer.order_id.as_deref()).collect();
        if ids.len() > 1 {
            faults.add(format_args!(
                "{}: answered with {} different orders",
                purchase.name(),
                ids.len()
            ));
        }
        for id in ids {
            if let Some(other) = owner.insert(id, purchase) {
                faults.add(format_args!(
                    "order {id} was given to {} and to {}",
                    other.name(),
                    purchase.name()
                ));
            }
        }
    }
    faults
}

fn one_order_per_key(answers: &[Answer], duplicates: &Faults) -> Finding {
    const CLAIM: &str = "each idempotency key gave one order";
    let detail = format!("{} duplicates", duplicates.count);
    if answers.iter().any(|answer| answer.key.is_some()) || duplicates.count > 0 {
        Finding::judged("I10", CLAIM, detail, duplicates.clone())
    } else {
        Finding::not_judged("I10", CLAIM, "no keys were sent")
    }
}
