//! Planted faults of draws.

use super::sale::*;
use super::waiting::case;
use crate::{Draw, Line, Order, Place, judge_draw};

/// Buyer 1 has bought by place 1, and with `past` buyer 2 without a place. Entries have the places of `entries`.
fn drawn(entries: &[(u64, i64)], past: bool, change: impl FnOnce(&mut Line)) -> Case {
    let mut case = case(change);
    case.after.orders.retain(|order| order.buyer == 1 || (past && order.buyer == 2));
    let ordered_at = case.after.orders.iter().map(|order| (order.id.clone(), 50)).collect();
    case.after.draw = Some(Draw { entries: entries.to_vec(), ordered_at, ..Draw::default() });
    case
}

/// The examples of I21, without the one that there is no proof.
fn faults(case: &Case) -> Vec<String> {
    let examples = case.finding("I21").examples;
    let (unreadable, others): (Vec<_>, Vec<_>) =
        examples.into_iter().partition(|fault| fault.contains("cannot be read"));
    assert_eq!(unreadable.len(), 1);
    others
}

const IN_ORDER: [(u64, i64); 3] = [(1, 1), (2, 2), (3, 3)];
const PASSED: &str = "order order-2 has no place, and place 3 got no unit";

#[test]
fn a_line_in_another_order_than_the_draw_is_found() {
    let found = |entries: &[(u64, i64)]| faults(&drawn(entries, false, |_| {}));
    assert_eq!(found(&IN_ORDER), Vec::<String>::new());
    assert_eq!(found(&[(1, 1), (2, 3), (3, 2)]), ["place 3 is behind a later one"]);
    let stranger = "buyer 9 has an entry and is not in the line";
    assert_eq!(found(&[(1, 1), (2, 2), (3, 9)]), [stranger]);
}

/// A pause that ends the line gives its units to whoever is quick.
#[test]
fn a_purchase_past_the_places_is_found() {
    let found = |change: fn(&mut Line)| faults(&drawn(&IN_ORDER, true, change));
    assert_eq!(found(|_| {}), [PASSED], "place 3 waits");
    assert_eq!(found(|line| line.places[2].status = "ended".to_owned()), [PASSED]);
    assert_eq!(found(|line| line.places[2].status = "left".to_owned()), Vec::<String>::new());
    let offer_ended_at = |line: &mut Line, closed_at| {
        line.places[2].status = "ended".to_owned();
        (line.places[2].offered_at, line.places[2].closed_at) = (Some(20), Some(closed_at));
    };
    let before = drawn(&IN_ORDER, true, |line| offer_ended_at(line, 40));
    assert_eq!(faults(&before), [PASSED], "the offer was ended before the order");
    let after = drawn(&IN_ORDER, true, |line| offer_ended_at(line, 60));
    assert_eq!(faults(&after), Vec::<String>::new(), "the sale has ended");
    let mut rejected = drawn(&IN_ORDER, true, |_| {});
    rejected.after.orders[1].status = "rejected".to_owned();
    assert_eq!(faults(&rejected), Vec::<String>::new(), "nothing was sold");
}

#[test]
fn friends_are_passed_by_purchases_of_as_many_units_as_they_are() {
    let entries = [(1, 1), (2, 2), (3, 3), (4, 4)];
    let mut case = drawn(&entries, true, |line| {
        let friend = line.places[2].clone();
        line.places.push(Place { number: 4, buyer: 4, ..friend });
        line.places[2..].iter_mut().for_each(|place| place.party = Some("friends".to_owned()));
    });
    assert_eq!(faults(&case), Vec::<String>::new(), "one unit was too few for them");
    case.after.orders[1].quantity = 2;
    assert_eq!(faults(&case).len(), 2);
    // An order of one unit hides no later one of two.
    case.after.orders[1].quantity = 1;
    case.after.orders.push(Order { quantity: 2, ..order(5) });
    let passed = |place| format!("order order-5 has no place, and place {place} got no unit");
    assert_eq!(faults(&case), [3, 4].map(passed));
}

/// No purchase was recorded: the ledger is judged alone.
#[test]
fn a_drawn_item_is_judged_without_a_record_of_answers() {
    let after = drawn(&IN_ORDER, false, |_| {}).after;
    let findings = judge_draw(STOCK + 1, &after).expect("judged");
    let names: Vec<_> = findings.iter().map(|finding| finding.invariant).collect();
    assert_eq!(names, ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I13", "I21"]);
}
