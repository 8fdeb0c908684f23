//! I12: was everything sold that could be sold?

use std::collections::{HashMap, HashSet};

use super::ledger::units;
use crate::{Answer, Evidence, Faults, Finding, Order, Outcome};

/// I12: units left that some turned-away buyer could have had. Counted from the orders, since
/// `available` is exactly what a lost update falsifies; I1 compares the two.
pub fn undersold(evidence: &Evidence<'_>) -> Faults {
    // An offered unit waits for its buyer.
    let offered = evidence.after.line.offered;
    let left = evidence.stock - units(evidence.after, Order::took_stock) - offered;
    let demand = demand(evidence);
    let demand_unmet = demand
        - (units(evidence.after, Order::took_stock) - units(evidence.before, Order::took_stock));
    let first_stock = evidence.stock - units(evidence.before, Order::took_stock);
    let sold_out_answers =
        evidence.answers.iter().filter(|answer| answer.code == "sold_out").count();
    // Units that no whole purchase fits into are not sellable to these buyers.
    let sellable = left - left.rem_euclid(evidence.quantity);
    let due = demand >= first_stock || sold_out_answers > 0;
    let count = if due { sellable.min(demand_unmet).max(0) } else { 0 };
    Faults::of_units(count, || {
        let turned_away = evidence
            .answers
            .iter()
            .filter(|answer| {
                answer.last && matches!(answer.outcome, Outcome::Unavailable | Outcome::Unknown)
            })
            .count();
        format!(
            "{left} units left of {}, though buyers asked for {demand}; {sold_out_answers} answers were sold_out, \
             {turned_away} purchases ended unavailable or unknown",
            evidence.stock
        )
    })
}

/// Units that the buyers asked for and were allowed to have. What surely never reached the service
/// was not asked for, nor what a sale was asked for that was not open, or by a buyer whose holds expired too often.
fn demand(evidence: &Evidence<'_>) -> i64 {
    let expired = evidence.after.orders.iter().filter(|order| order.status == "expired");
    let unpaid: HashSet<i64> = expired.map(|order| order.buyer).collect();
    let is_barred =
        |answer: &Answer| answer.code == "unpaid_limit_reached" && unpaid.contains(&answer.buyer);
    let mut asked: HashMap<i64, i64> = HashMap::new();
    let counts = |answer: &&Answer| {
        answer.last && answer.was_sent() && !answer.is_of_closed_sale() && !is_barred(answer)
    };
    for answer in evidence.answers.iter().filter(counts) {
        *asked.entry(answer.buyer).or_default() += 1;
    }
    let mut had: HashMap<i64, i64> = HashMap::new();
    for order in evidence.before.orders.iter().filter(|order| order.is_live()) {
        *had.entry(order.buyer).or_default() += order.quantity;
    }
    asked
        .into_iter()
        .map(|(buyer, purchases)| {
            let allowed = evidence.per_buyer_limit - had.get(&buyer).copied().unwrap_or(0);
            purchases.min((allowed / evidence.quantity).max(0)) * evidence.quantity
        })
        .sum()
}

/// The finding for I12.
pub fn sold_out(evidence: &Evidence<'_>, undersold: Faults) -> Finding {
    const CLAIM: &str = "when demand exceeded stock, everything was sold";
    let demand = demand(evidence);
    let stock = evidence.stock - units(evidence.before, Order::took_stock);
    if demand < stock && undersold.count == 0 {
        return Finding::not_judged(
            "I12",
            CLAIM,
            format!("buyers asked for {demand} units of {stock}"),
        );
    }
    let detail =
        format!("{demand} units asked for, {stock} on sale, {} undersold", undersold.count);
    Finding::judged("I12", CLAIM, detail, undersold)
}
