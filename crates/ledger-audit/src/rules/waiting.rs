//! I13 and I14: units that come back to buyers who wait, and limits that items share.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{Evidence, Faults, Finding, Ledger, Order, Place};

/// I13: the waiting list.
pub fn line(evidence: &Evidence<'_>) -> Finding {
    const CLAIM: &str =
        "offered units are open offers, accepted offers are orders, nobody is overtaken";
    let line = &evidence.after.line;
    let open = line.places.iter().filter(|place| place.status == "offered").count();
    let detail = format!("{} places, {open} open offers", line.places.len());
    if evidence.arbiter_on {
        Finding::judged("I13", CLAIM, detail, faults_of_line(evidence.after))
    } else {
        Finding::not_judged("I13", CLAIM, format!("the arbiter is off; {detail}"))
    }
}

/// The faults of an item's waiting list, which the ledger shows by itself.
pub fn faults_of_line(ledger: &Ledger) -> Faults {
    let line = &ledger.line;
    let mut faults = Faults::default();
    let open = line.places.iter().filter(|place| place.status == "offered").count();
    if i64::try_from(open).ok() != Some(line.offered) {
        faults.add(format_args!("{} units are offered, {open} offers are open", line.offered));
    }
    let mut live = HashSet::new();
    for place in line.places.iter().filter(|place| is_live(place)) {
        if !live.insert(place.buyer) {
            faults.add(format_args!("buyer {} is in the line twice", place.buyer));
        }
    }
    overtaken(&line.places, &mut faults);
    unmatched(&line.places, &ledger.orders, &mut faults);
    faults
}

/// I14: the limit of a group.
pub fn group(evidence: &Evidence<'_>) -> Finding {
    const CLAIM: &str = "no buyer has more of a group of items than the limit";
    let Some(group) = &evidence.after.group else {
        return Finding::not_judged("I14", CLAIM, "the item is in no group");
    };
    let mut faults = Faults::default();
    for (buyer, units) in &group.over {
        faults.add(format_args!("buyer {buyer} has {units} units, the limit is {}", group.limit));
    }
    let detail = format!("{} buyers above {}", group.over.len(), group.limit);
    Finding::judged("I14", CLAIM, detail, faults)
}

fn is_live(place: &Place) -> bool {
    matches!(place.status.as_str(), "waiting" | "offered")
}

/// A place was overtaken when one behind it got an offer while it was still waiting. Friends may be overtaken by as many
/// offers at one moment as are too few for them.
fn overtaken(places: &[Place], faults: &mut Faults) {
    let mut sorted: Vec<&Place> = places.iter().collect();
    sorted.sort_unstable_by_key(|place| std::cmp::Reverse(place.number));
    let mut first_behind: Option<&Place> = None;
    let mut members: HashMap<&str, usize> = HashMap::new();
    for party in places.iter().filter_map(|place| place.party.as_deref()) {
        *members.entry(party).or_default() += 1;
    }
    // The offers behind, by their moment; and the moments with several.
    let mut at_once: HashMap<i64, usize> = HashMap::new();
    let mut several: BTreeSet<i64> = BTreeSet::new();
    for place in sorted {
        let left_line = place.offered_at.or(place.closed_at).unwrap_or(i64::MAX);
        let size = place.party.as_deref().map_or(1, |party| members[party]);
        if let Some(at) = place.offered_at {
            let count = at_once.entry(at).or_default();
            *count += 1;
            if *count > 1 {
                several.insert(at);
            }
        }
        if size > 1 {
            if let Some(at) = several.range(..left_line).find(|at| at_once[*at] >= size) {
                let units = at_once[at];
                faults.add(format_args!(
                    "{units} places were served before place {}, which is one of {size} friends",
                    place.number
                ));
            }
        } else if let Some(behind) =
            first_behind.filter(|behind| behind.offered_at < Some(left_line))
        {
            faults.add(format_args!(
                "place {} was served before place {}",
                behind.number, place.number
            ));
        }
        let earliest = first_behind.and_then(|behind| behind.offered_at).unwrap_or(i64::MAX);
        if place.offered_at.is_some_and(|at| at < earliest) {
            first_behind = Some(place);
        }
    }
}

/// Friends of whom one was offered a unit while another one was in the line and got none.
pub(super) fn split_parties(places: &[Place], faults: &mut Faults) {
    let mut parties: HashMap<&str, Vec<&Place>> = HashMap::new();
    for place in places {
        if let Some(party) = &place.party {
            parties.entry(party.as_str()).or_default().push(place);
        }
    }
    for (party, friends) in parties {
        let Some(at) = friends.iter().filter_map(|place| place.offered_at).min() else { continue };
        let is_left =
            |place: &&Place| place.offered_at.or(place.closed_at).is_none_or(|end| end > at);
        if friends.iter().any(is_left) {
            faults.add(format_args!("the friends {party} were not offered units together"));
        }
    }
}

/// Accepted offers and the orders that they became, one by one.
fn unmatched(places: &[Place], orders: &[Order], faults: &mut Faults) {
    let orders: HashMap<&str, &Order> =
        orders.iter().map(|order| (order.id.as_str(), order)).collect();
    let mut used = HashSet::new();
    for place in places.iter().filter(|place| place.status == "accepted") {
        let id = place.order_id.as_deref().unwrap_or("(none)");
        match orders.get(id) {
            Some(order) if order.buyer != place.buyer || order.quantity != 1 => {
                faults.add(format_args!("place {}: order {id} is another one", place.number));
            }
            Some(_) if !used.insert(id) => {
                faults.add(format_args!("order {id} was offered twice"));
            }
            Some(_) => {}
            None => faults.add(format_args!("place {}: no order {id}", place.number)),
        }
    }
}
