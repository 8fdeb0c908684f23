//! I9 and I11: where each order in the ledger came from, and what unknown answers did.

use std::collections::{HashMap, HashSet};

use super::purchase::{Index, Purchase};
use crate::{Faults, UnknownOutcomes};

/// I9 and I11: each new order belongs to an accepted purchase, or to one of unknown outcome. Returns the orders without a
/// request, those of refused ones, and what became of the unknown ones.
pub fn attribute(
    purchases: &[Purchase<'_>],
    index: &Index<'_>,
) -> (Faults, Faults, UnknownOutcomes) {
    let mut phantom = Faults::default();
    let mut despite_refusal = Faults::default();
    let mut accepted_ids: HashSet<(i64, &str)> = HashSet::new();
    let mut by_key: HashMap<(i64, &str), &Purchase<'_>> = HashMap::new();
    let mut open_without_key: HashMap<i64, i64> = HashMap::new();
    let mut refused_buyers: HashSet<i64> = HashSet::new();
    for purchase in purchases {
        if let Some(id) = purchase.accepted().and_then(|answer| answer.order_id.as_deref()) {
            accepted_ids.insert((purchase.buyer, id));
        }
        match purchase.key {
            Some(key) => {
                by_key.insert((purchase.buyer, key), purchase);
            }
            // Without a key any of the attempts may have taken effect.
            None if purchase.was_unknown() => {
                *open_without_key.entry(purchase.buyer).or_default() += 1;
            }
            None if purchase.is_refused() => {
                refused_buyers.insert(purchase.buyer);
            }
            None => {}
        }
    }
    let mut unknown = UnknownOutcomes::default();
    for order in &index.new {
        if accepted_ids.contains(&(order.buyer, order.id.as_str())) {
            continue;
        }
        let by_its_key = order.key.as_deref().and_then(|key| by_key.get(&(order.buyer, key)));
        if let Some(purchase) = by_its_key {
            if purchase.is_refused() {
                let code = purchase.answers.last().map_or("", |last| last.code.as_str());
                despite_refusal.add(format_args!(
                    "{}: answered {code}, but order {} exists",
                    purchase.name(),
                    order.id
                ));
            }
            continue;
        }
        if let Some(left) = open_without_key.get_mut(&order.buyer).filter(|left| **left > 0) {
            *left -= 1;
            unknown.took_effect += 1;
            continue;
        }
        if refused_buyers.contains(&order.buyer) {
            despite_refusal.add(format_args!(
                "buyer {} was refused, but order {} exists",
                order.buyer, order.id
            ));
        }
        phantom.add(format_args!(
            "order {} of buyer {}, key {}: no request asked for it",
            order.id,
            order.buyer,
            order.key_shown()
        ));
    }
    resolve_unknown(purchases, index, &mut unknown);
    (phantom, despite_refusal, unknown)
}

/// Asks the ledger what purchases without a definite answer did.
fn resolve_unknown(purchases: &[Purchase<'_>], index: &Index<'_>, unknown: &mut UnknownOutcomes) {
    for purchase in purchases {
        if purchase.is_open() {
            unknown.purchases += 1;
            if purchase.key.is_some_and(|key| index.by_key.contains_key(&(purchase.buyer, key))) {
                unknown.took_effect += 1;
            }
        } else if purchase.was_unknown() {
            unknown.settled_by_retry += 1;
        }
    }
    unknown.no_effect = (unknown.purchases - unknown.took_effect).max(0);
}
