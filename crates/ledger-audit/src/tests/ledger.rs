//! Faults that the ledger shows by itself, and what cannot be judged.

use super::sale::*;
use crate::{Faults, Fence, Ledger, Order, Outcome, State, Stock};

#[test]
fn a_sound_sale_is_clean_with_and_without_keys() {
    let judgement = Case::sound().judge();
    assert!(judgement.is_clean(), "{:?}", judgement.findings);
    assert_eq!((judgement.units_live, judgement.units_accepted), (3, 3));
    assert_eq!([judgement.oversold, judgement.undersold], [Faults::default(), Faults::default()]);
    let names: Vec<_> = judgement.findings.iter().map(|finding| finding.invariant).collect();
    let numbers = (1..=14).chain(16..=20).chain([22]);
    let expected: Vec<String> = numbers.map(|number| format!("I{number}")).collect();
    assert_eq!(names, expected);
    assert!(Case::sound().without_keys().judge().is_clean());
}

#[test]
fn an_empty_database_cannot_be_judged() {
    let mut no_item = Case::sound();
    no_item.after = Ledger::default();
    assert!(no_item.try_judge().is_err());
    let mut no_stock = Case::sound();
    no_stock.after.stock = None;
    assert!(no_stock.try_judge().is_err());
    let mut emptied = Case::sound();
    emptied.after = ledger(STOCK, STOCK, Vec::new(), Vec::new());
    let judgement = emptied.judge();
    assert_eq!(judgement.lost.count, 3);
    assert!(judgement.broken().contains(&"I8"));
}

#[test]
fn a_run_that_reached_nobody_cannot_be_judged() {
    let mut silent = Case::sound();
    silent.answers.clear();
    assert!(silent.try_judge().is_err());
    let mut unreachable = Case::sound();
    unreachable.answers =
        (1..=5).map(|buyer| answer(buyer, 0, "not_connected", Outcome::Unavailable)).collect();
    assert!(unreachable.try_judge().is_err());
}

#[test]
fn a_run_of_invalid_purchases_cannot_be_judged() {
    let mut misspelt = Case::sound();
    misspelt.after = misspelt.before.clone();
    misspelt.answers =
        (1..=5).map(|buyer| answer(buyer, 404, "strategy_not_found", Outcome::Refused)).collect();
    let failure = misspelt.try_judge().expect_err("nothing to judge");
    assert!(failure.to_string().contains("404 strategy_not_found"));
    // Turned away at the till is another matter.
    misspelt.answers[0] = answer(1, 503, "contended", Outcome::Unavailable);
    assert_eq!(misspelt.judge().undersold.count, 3);
}

#[test]
fn a_lost_and_a_phantom_order_do_not_cancel_out() {
    let mut case = Case::sound();
    case.after.orders[1] = order(9);
    let judgement = case.judge();
    assert_eq!((judgement.lost.count, judgement.phantom.count), (1, 1));
    assert_eq!(
        [example(&judgement, "I8"), example(&judgement, "I9")],
        [
            "buyer 2, key key-2: order order-2 is not in the ledger",
            "order order-9 of buyer 9, key key-9: no request asked for it"
        ]
    );
    assert_eq!(judgement.broken(), ["I4", "I8", "I9"]);
    // Even when the movement is changed with its order.
    case.after.movements[1] = movement(9, "sold", -1);
    assert_eq!(case.judge().broken(), ["I8", "I9"]);
}

#[test]
fn a_missing_or_extra_movement_is_named() {
    let mut missing = Case::sound();
    missing.after.movements = sold_to(1..=2);
    assert_eq!(missing.judge().broken(), ["I3", "I4"]);
    let mut split = Case::sound();
    split.after.movements.push(movement(3, "sold", 0));
    assert_eq!(split.judge().broken(), ["I4"]);
    // In the totals the two cancel out.
    let mut swapped = Case::sound();
    swapped.after.movements[2] = movement(9, "sold", -1);
    assert_eq!(swapped.judge().broken(), ["I4"]);
    assert!(example(&swapped.judge(), "I4").contains("is of no order: order-9"));
    let mut unheard = Case::sound();
    unheard.after.movements.push(movement(1, "gift", 0));
    assert_eq!(unheard.judge().broken(), ["I4"]);
}

#[test]
fn a_swapped_buyer_is_named() {
    // Two buyers who swapped orders cancel out in every total.
    let mut swapped = Case::sound();
    swapped.after.orders[0].buyer = 2;
    swapped.after.orders[1].buyer = 1;
    assert_eq!(swapped.judge().broken(), ["I8", "I9"]);
    assert_eq!(swapped.without_keys().judge().broken(), ["I8", "I9"]);
}

#[test]
fn a_lost_update_is_oversold_although_available_looks_well() {
    let mut case = Case::sound();
    case.arbiter_on = false;
    case.answers[3] = sold(4);
    case.after.orders.push(order(4));
    case.after.movements = sold_to(1..=4);
    let judgement = case.judge();
    assert_eq!(judgement.oversold.count, 1);
    assert_eq!(judgement.broken(), ["I1", "I3"]);
}

/// The ledger forgot one of them, and what was sold before is on sale no more.
#[test]
fn units_promised_beyond_what_was_left_before_are_oversold() {
    let mut case = Case::sound();
    case.before = ledger(STOCK, 2, vec![order(1)], sold_to(1..=1));
    case.answers = (2..=4).map(sold).collect();
    assert_eq!(case.judge().oversold.count, 1);
}

#[test]
fn give_backs_must_match_their_orders() {
    let mut case = Case::sound();
    case.after.orders[0].status = "expired".into();
    case.after.orders[1].status = "cancelled".into();
    case.after.stock = Some(Stock { total: STOCK, available: 2 });
    case.after.movements.extend([movement(1, "expired", 1), movement(2, "cancelled", 1)]);
    assert!(case.judge().is_clean());
    assert_eq!(case.finding("I5").detail, "2 units given back");
    // The expired one gave back nothing, the cancelled one for both: in the totals of units they cancel out.
    let mut other = Case::sound();
    other.after = case.after.clone();
    other.after.movements[3] = movement(2, "expired", 1);
    assert_eq!(other.judge().broken(), ["I5"]);
    // A late payment takes what the expiry gave back.
    case.after.orders[0].status = "paid".into();
    case.after.stock = Some(Stock { total: STOCK, available: 1 });
    case.after.movements.push(movement(1, "late_payment", -1));
    assert!(case.judge().is_clean());
    let detail = "total 3, available 1, offered 0, sold 1, held 1";
    assert_eq!(case.finding("I1").detail, detail);
    // Given back twice.
    case.after.movements.push(movement(2, "cancelled", 1));
    case.after.stock = Some(Stock { total: STOCK, available: 2 });
    assert_eq!(case.judge().broken(), ["I1", "I5"]);
}

/// Statuses of an order, and movements beside that of its sale which do not belong to them.
const WRONG_GIVE_BACKS: [(&str, &[(&str, i64)]); 11] = [
    ("pending", &[("cancelled", 1)]),
    ("pending", &[("expired", 1)]),
    ("pending", &[("expired", 1), ("late_payment", -1)]),
    ("paid", &[("cancelled", 1)]),
    ("paid", &[("expired", 1)]),
    ("paid", &[("late_payment", -1)]),
    ("cancelled", &[]),
    ("cancelled", &[("cancelled", 1), ("expired", 1)]),
    ("expired", &[]),
    ("expired", &[("expired", 1), ("cancelled", 1)]),
    ("expired", &[("expired", 1), ("late_payment", -1)]),
];

#[test]
fn each_wrong_give_back_is_found() {
    for (status, moved) in WRONG_GIVE_BACKS {
        let mut case = Case::sound();
        case.after.orders[0].status = status.to_owned();
        case.after.movements.extend(moved.iter().map(|(why, units)| movement(1, why, *units)));
        assert_eq!(case.finding("I5").state, State::Broken, "{status}, {moved:?}");
    }
}

#[test]
fn the_limit_is_not_judged_with_the_arbiter_off() {
    let mut case = Case::sound();
    case.after.orders[1].buyer = 1;
    case.answers[1].buyer = 1;
    assert_eq!(case.judge().broken(), ["I2"]);
    case.arbiter_on = false;
    let judgement = case.judge();
    assert!(judgement.broken().is_empty());
    assert_eq!(judgement.over_limit.count, 1);
    assert_eq!(judgement.findings[1].state, State::NotJudged);
}

/// The orders of a sound sale, with the fences of these writes: number, counter and sequence.
fn fenced(writes: [(u64, &str, Option<u64>); 3]) -> Case {
    let mut case = Case::sound();
    for (order, (number, backend, sequence)) in case.after.orders.iter_mut().zip(writes) {
        order.fence = Some(Fence { number, backend: Some(backend.to_owned()), sequence });
    }
    case
}

#[test]
fn a_stale_write_that_was_let_in_is_named() {
    // A batch shares a fence; the order in which orders are read means nothing.
    let sound = fenced([(7, "redis", Some(2)), (7, "redis", Some(2)), (5, "redis", Some(1))]);
    assert!(sound.judge().is_clean());
    assert_eq!(sound.finding("I6").state, State::Holds);
    assert_eq!(sound.finding("I6").detail, "3 orders with a fence");
    // Fences of two counters cannot be compared.
    assert!(
        fenced([(7, "redis", Some(1)), (2, "etcd", Some(1)), (3, "etcd", Some(2))])
            .judge()
            .is_clean()
    );
    let stale = fenced([(7, "redis", Some(1)), (9, "redis", Some(2)), (8, "redis", Some(3))]);
    assert_eq!(stale.judge().broken(), ["I6"]);
    assert!(example(&stale.judge(), "I6").contains("order-3"));
    // Two holders in one write.
    let mixed = fenced([(7, "redis", Some(1)), (9, "redis", Some(2)), (8, "redis", Some(2))]);
    assert_eq!(mixed.judge().broken(), ["I6"]);
    let never_compared = fenced([(7, "redis", Some(1)), (9, "redis", Some(2)), (8, "redis", None)]);
    assert_eq!(never_compared.judge().broken(), ["I6"]);
}

#[test]
fn fences_are_not_judged_where_nobody_compares_them() {
    let mut case = fenced([(7, "redis", None), (5, "redis", None), (6, "redis", None)]);
    case.arbiter_on = false;
    assert_eq!(case.judge().findings[5].state, State::NotJudged);
    assert_eq!(Case::sound().judge().findings[5].state, State::NotJudged);
}

/// A queued order takes its buyer's limit already, before it takes stock.
#[test]
fn a_queued_order_counts_against_the_limit() {
    let mut case = Case::sound();
    let queued = Order { status: "queued".to_owned(), key: None, ..order(1) };
    case.after.orders.push(queued);
    assert!(case.judge().broken().contains(&"I2"));
}
