//! Faults that only the record of every answer shows.

use super::sale::*;
use crate::{Answer, FaultCounts, Movement, Order, Outcome, State, write_history};

#[test]
fn stock_left_while_buyers_were_turned_away_is_undersold() {
    let mut case = Case::sound();
    case.answers[2] = refused(3);
    case.after = ledger(STOCK, 1, vec![order(1), order(2)], sold_to(1..=2));
    let judgement = case.judge();
    assert_eq!(judgement.undersold.count, 1);
    assert_eq!(judgement.broken(), ["I12"]);
    assert_eq!(
        example(&judgement, "I12"),
        "1 units left of 3, though buyers asked for 5; 3 answers were sold_out, \
         0 purchases ended unavailable or unknown"
    );
    // Two units a purchase: the third unit is left rightly.
    case.quantity = 2;
    case.per_buyer_limit = 2;
    case.answers = vec![Answer { order_quantity: Some(2), ..sold(1) }, refused(2)];
    let of_two = vec![Order { quantity: 2, ..order(1) }];
    case.after = ledger(STOCK, 1, of_two, vec![movement(1, "sold", -2)]);
    assert!(case.judge().is_clean());
}

#[test]
fn too_little_demand_is_not_undersold_but_a_false_sold_out_is() {
    let mut case = Case::sound();
    case.answers = vec![sold(1), answer(2, 409, "limit_reached", Outcome::Refused)];
    case.after = ledger(STOCK, 2, vec![order(1)], sold_to(1..=1));
    assert!(case.judge().is_clean());
    case.answers[1] = refused(2);
    assert_eq!(case.judge().undersold.count, 1);
}

/// Buyers ask for what they may still have, in whole purchases.
#[test]
fn demand_is_judged_from_the_units_on_sale_on() {
    let mut case = Case::sound();
    case.stock = 10;
    case.quantity = 2;
    case.per_buyer_limit = 4;
    let of_two = vec![Order { quantity: 2, ..order(1) }];
    case.before = ledger(10, 8, of_two, vec![movement(1, "sold", -2)]);
    case.after = case.before.clone();
    // Buyer 1 may have one purchase more, and asks for two.
    let contended = |buyer| answer(buyer, 503, "contended", Outcome::Unavailable);
    case.answers = vec![contended(1), contended(2), Answer { request: 3, ..contended(1) }];
    let finding = case.finding("I12");
    assert_eq!(finding.state, State::NotJudged);
    assert_eq!(finding.detail, "buyers asked for 4 units of 8");
    let mut all_sold = Case::sound();
    all_sold.answers.truncate(3);
    assert_eq!(all_sold.finding("I12").state, State::Holds);
}

#[test]
fn what_never_reached_the_service_is_no_demand() {
    let mut case = Case::sound();
    case.after = ledger(STOCK, 2, vec![order(1)], sold_to(1..=1));
    case.answers = vec![sold(1)];
    let not_sent = |buyer| answer(buyer, 0, "not_connected", Outcome::Unavailable);
    case.answers.extend((2..=5).map(not_sent));
    assert!(case.judge().is_clean());
}

#[test]
fn a_sale_that_is_not_open_is_not_undersold() {
    let mut case = Case::sound();
    let ended = |buyer| answer(buyer, 409, "sale_ended", Outcome::Refused);
    case.after = ledger(STOCK, 2, vec![order(1)], sold_to(1..=1));
    case.answers = std::iter::once(sold(1)).chain((2..=5).map(ended)).collect();
    assert!(case.judge().is_clean());
    case.after = case.before.clone();
    case.answers = (1..=5).map(ended).collect();
    assert!(case.try_judge().is_err(), "nobody could buy");
}

#[test]
fn a_buyer_whose_holds_expired_too_often_is_no_demand() {
    let mut case = Case::sound();
    let key = Some("old-key".into());
    let old = Order { id: "old".into(), key, status: "expired".into(), ..order(2) };
    let moved =
        |reason: &str, units| Movement { order: "old".into(), ..movement(2, reason, units) };
    let mut movements = vec![moved("sold", -1), moved("expired", 1)];
    case.before = ledger(STOCK, STOCK, vec![old.clone()], movements.clone());
    movements.extend(sold_to(1..=1));
    case.after = ledger(STOCK, 2, vec![old, order(1)], movements);
    let barred = |buyer| answer(buyer, 409, "unpaid_limit_reached", Outcome::Refused);
    case.answers = vec![sold(1), barred(2)];
    assert!(case.judge().is_clean());
    case.answers.push(barred(3));
    assert_eq!(case.judge().undersold.count, 1, "who has no such hold");
}

#[test]
fn unknown_outcomes_are_resolved_by_key_or_by_buyer() {
    let mut case = Case::sound();
    case.answers[2] = unknown(3);
    case.answers[3] = unknown(4);
    for case in [case.judge(), case.without_keys().judge()] {
        assert!(case.is_clean(), "{:?}", case.findings);
        assert_eq!(
            (case.unknown.purchases, case.unknown.took_effect, case.unknown.no_effect),
            (2, 1, 1)
        );
    }
    // One unknown purchase explains one order, not two.
    let mut twice = Case::sound();
    twice.answers[2] = unknown(3);
    twice.after.orders.push(Order { id: "order-3b".into(), ..order(3) });
    let twice = twice.without_keys().judge();
    assert_eq!(twice.phantom.count, 1);
}

#[test]
fn an_order_despite_a_definite_refusal_is_named() {
    let mut case = Case::sound();
    case.answers[2] = refused(3);
    let judgement = case.judge();
    assert_eq!(judgement.broken(), ["I11"]);
    assert!(example(&judgement, "I11").contains("sold_out"));
    assert_eq!(judgement.despite_refusal.count, 1);
    case.answers[2] = answer(3, 503, "contended", Outcome::Unavailable);
    assert_eq!(case.judge().broken(), ["I11"]);
    // A retry after an unknown answer tells the truth; this one did not.
    case.answers[2] = Answer { attempt: 1, ..refused(3) };
    case.answers.push(Answer { last: false, ..unknown(3) });
    assert_eq!(case.judge().broken(), ["I11"]);
    // But an unavailable retry leaves the first attempt open.
    case.answers[2] = Answer { attempt: 1, ..answer(3, 503, "overloaded", Outcome::Unavailable) };
    let judgement = case.judge();
    assert!(judgement.is_clean(), "{:?}", judgement.findings);
    assert_eq!(judgement.unknown.took_effect, 1);
    assert_eq!(case.without_keys().judge().broken(), Vec::<&str>::new());
    // Without a key the buyer tells.
    let mut keyless = Case::sound().without_keys();
    keyless.answers[2] = Answer { key: None, ..refused(3) };
    assert_eq!(keyless.judge().broken(), ["I9", "I11"]);
}

#[test]
fn an_order_with_another_quantity_is_altered_also_beside_a_lost_one() {
    let mut case = Case::sound();
    for (in_ledger, answered) in [(1, 2), (2, 2), (2, 1)] {
        case.after.orders[0].quantity = in_ledger;
        case.answers[0].order_quantity = Some(answered);
        let judgement = case.judge();
        assert_eq!((judgement.lost.count, judgement.altered.count), (0, 1));
        assert_eq!(case.finding("I8").state, State::Broken, "{in_ledger}, {answered}");
    }
    case.after.orders.remove(1);
    let finding = case.finding("I8");
    assert_eq!(finding.state, State::Broken);
    assert_eq!(finding.detail, "3 accepted, 1 lost, 1 altered");
    assert_eq!(finding.examples.len(), 2);
}

#[test]
fn duplicates_are_named() {
    let mut by_key = Case::sound();
    by_key.after.orders.push(Order { id: "order-3b".into(), ..order(3) });
    let judgement = by_key.judge();
    assert_eq!(judgement.duplicates.count, 1);
    assert!(judgement.broken().contains(&"I10"));
    let mut handed_twice = Case::sound();
    handed_twice.answers[3] = Answer { order_id: Some("order-1".into()), ..sold(4) };
    let judgement = handed_twice.judge();
    let counts = FaultCounts { duplicates: 1, oversold: 1, ..FaultCounts::default() };
    assert_eq!(judgement.counts(), counts);
    assert_eq!(judgement.broken(), ["I8", "I10"]);
    assert_eq!(handed_twice.without_keys().finding("I10").state, State::Broken);
    let mut other_order_on_retry = Case::sound();
    other_order_on_retry.answers.push(Answer {
        attempt: 1,
        order_id: Some("order-x".into()),
        ..sold(1)
    });
    assert_eq!(other_order_on_retry.judge().broken(), ["I10"]);
    assert_eq!(Case::sound().finding("I10").state, State::Holds);
    assert_eq!(Case::sound().without_keys().finding("I10").state, State::NotJudged);
}

#[test]
fn a_replayed_order_is_one_order() {
    let mut case = Case::sound();
    case.answers.push(Answer { last: false, ..unknown(1) });
    case.answers[0].attempt = 1;
    let judgement = case.judge();
    assert!(judgement.is_clean());
    assert_eq!((judgement.unknown.settled_by_retry, judgement.unknown.purchases), (1, 0));
}

#[test]
fn a_queued_answer_must_end() {
    let mut case = Case::sound();
    case.answers[2] = Answer { status: 202, code: "queued".into(), ..sold(3) };
    assert!(case.judge().is_clean());
    case.after.orders[2].status = "queued".into();
    assert!(case.judge().broken().contains(&"I8"));
    // Rejected later is a fair end of a queued purchase, not of a sold one.
    let rejected = |status| {
        let mut case = Case::sound();
        case.after = ledger(STOCK, 0, (1..=4).map(order).collect(), sold_to(1..=3));
        case.after.orders[3].status = "rejected".into();
        case.answers[3] = Answer { status, ..sold(4) };
        case.judge()
    };
    assert!(rejected(202).is_clean());
    assert!(rejected(201).broken().contains(&"I8"));
}

#[test]
fn orders_from_before_are_no_phantoms_but_count() {
    let mut case = Case::sound();
    case.before = ledger(STOCK, 2, vec![order(1)], sold_to(1..=1));
    case.answers[0] = answer(1, 409, "limit_reached", Outcome::Refused);
    case.answers[0].key = Some("another".into());
    let judgement = case.judge();
    assert!(judgement.is_clean(), "{:?}", judgement.findings);
    assert_eq!(judgement.units_accepted, 2);
}

/// A refusal is a promise that nothing was changed, but not while another request with the key runs.
#[test]
fn a_definite_refusal_is_no_other_answer() {
    assert!(refused(1).is_definite_refusal());
    assert!(answer(1, 503, "contended", Outcome::Unavailable).is_definite_refusal());
    assert!(!sold(1).is_definite_refusal());
    assert!(!unknown(1).is_definite_refusal());
    let in_progress = answer(1, 409, "request_in_progress", Outcome::Refused);
    assert!(in_progress.is_in_progress());
    assert!(!in_progress.is_definite_refusal());
    assert!(!refused(1).is_in_progress());
}

#[test]
fn a_record_is_written_as_one_line_for_each_answer() {
    let path = std::env::temp_dir().join(format!("answers-{}.jsonl", std::process::id()));
    write_history(&path, &Case::sound().answers).expect("written");
    let written = std::fs::read_to_string(&path).expect("read");
    std::fs::remove_file(&path).expect("removed");
    let lines = written.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let buyers: Vec<_> = lines.map(|line: serde_json::Value| line["buyer"].as_i64()).collect();
    assert_eq!(buyers, (1..=5).map(Some).collect::<Vec<_>>());
    assert!(write_history(&path.join("of-no-folder"), &[]).is_err());
}

/// Reports and records name an outcome alike.
#[test]
fn an_outcome_has_one_name() {
    for outcome in [Outcome::Accepted, Outcome::Refused, Outcome::Unavailable, Outcome::Unknown] {
        assert_eq!(serde_json::to_value(outcome).expect("JSON"), outcome.as_str());
    }
}
