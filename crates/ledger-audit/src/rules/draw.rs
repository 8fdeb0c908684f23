//! I21: the places of a draw.

use std::collections::{HashMap, HashSet};

use verify::Known;

use super::waiting::split_parties;
use crate::{Draw, Evidence, Faults, Finding, Ledger, Order, Place};

/// I21: places are the published shuffle, the line is in their order, and nobody buys without a place while an entry is
/// owed a unit; `None` when the item has no draw that is over.
pub fn places(evidence: &Evidence<'_>) -> Option<Finding> {
    const CLAIM: &str = "places are the published shuffle, and nobody buys past them";
    let draw = evidence.after.draw.as_ref()?;
    let detail = format!("{} entries", draw.entries.len());
    Some(Finding::judged("I21", CLAIM, detail, faults_of(draw, evidence.after)))
}

fn faults_of(draw: &Draw, ledger: &Ledger) -> Faults {
    let mut faults = Faults::default();
    match verify::read(draw.proof.as_bytes()) {
        Err(why) => faults.add(format_args!("the proof cannot be read: {why}")),
        Ok(proof) => {
            for (_, sentence) in verify::check(&proof, Known::default()) {
                faults.add(format_args!("{sentence}"));
            }
        }
    }
    // The first place of each buyer in the line; a buyer may have joined again later.
    let mut first: HashMap<i64, &Place> = HashMap::new();
    for place in &ledger.line.places {
        first.entry(place.buyer).or_insert(place);
    }
    let mut before = 0;
    for (place, buyer) in &draw.entries {
        match first.get(buyer) {
            None => faults.add(format_args!("buyer {buyer} has an entry and is not in the line")),
            Some(standing) if standing.number <= before => {
                faults.add(format_args!("place {place} is behind a later one"));
            }
            Some(standing) => before = standing.number,
        }
    }
    split_parties(&ledger.line.places, &mut faults);
    let standing: Vec<&Place> =
        draw.entries.iter().filter_map(|(_, buyer)| first.get(buyer).copied()).collect();
    passed_over(draw, ledger, &standing, &mut faults);
    faults
}

/// Orders without an offer while an entry was owed a unit: it was never offered one, or the offer was ended for it, by
/// a pause or before the sale was opened again. Friends are owed as many units as they are, or none.
fn passed_over(draw: &Draw, ledger: &Ledger, standing: &[&Place], faults: &mut Faults) {
    let places = &ledger.line.places;
    let offered: HashSet<&str> =
        places.iter().filter_map(|place| place.order_id.as_deref()).collect();
    let is_sold = |order: &&Order| !matches!(order.status.as_str(), "queued" | "rejected");
    let without_offer = ledger.orders.iter().filter(is_sold);
    let mut without_offer: Vec<(i64, &Order)> = without_offer
        .filter(|order| !offered.contains(order.id.as_str()))
        .map(|order| (draw.ordered_at.get(&order.id).copied().unwrap_or(i64::MAX), order))
        .collect();
    without_offer.sort_unstable_by_key(|(at, _)| *at);
    // From the last order on: the one with the most units from there.
    let mut largest: Option<&Order> = None;
    for (_, order) in without_offer.iter_mut().rev() {
        let most = largest.filter(|largest| largest.quantity >= order.quantity).unwrap_or(order);
        (largest, *order) = (Some(most), most);
    }
    let mut friends: HashMap<&str, i64> = HashMap::new();
    for party in places.iter().filter_map(|place| place.party.as_deref()) {
        *friends.entry(party).or_default() += 1;
    }
    for place in standing {
        let owed_from = match (place.status.as_str(), place.offered_at, place.closed_at) {
            ("waiting" | "ended", None, _) => i64::MIN,
            ("ended", Some(_), Some(closed_at)) => closed_at,
            _ => continue,
        };
        let units = place.party.as_deref().map_or(1, |party| friends[party]);
        let later = without_offer.partition_point(|(at, _)| *at <= owed_from);
        let Some((_, order)) = without_offer.get(later) else { continue };
        if order.quantity >= units {
            let id = &order.id;
            let number = place.number;
            faults.add(format_args!("order {id} has no place, and place {number} got no unit"));
        }
    }
}
