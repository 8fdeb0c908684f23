//! Faults that only the order of time shows.

use super::sale::*;
use crate::history::{History, MISSING, SeenList, SeenOrder, SentRestock};
use crate::{Answer, Ledger, Order, Outcome, Place, Restock, State};

const MS: u64 = 1_000;

/// An answer that was sent and came at these milliseconds.
fn at(answer: Answer, sent_ms: u64, answered_ms: u64) -> Answer {
    let from_send_us = (answered_ms - sent_ms) * MS;
    Answer { answered_at_us: answered_ms * MS, from_send_us, ..answer }
}

fn seen(id: &str, status: &str, sent_ms: u64, answered_ms: u64) -> SeenOrder {
    SeenOrder {
        id: id.to_owned(),
        status: status.to_owned(),
        sent_at_us: sent_ms * MS,
        answered_at_us: answered_ms * MS,
    }
}

fn list(buyer: i64, orders: &[&str], sent_ms: u64, answered_ms: u64) -> SeenList {
    let orders = orders.iter().map(|id| (*id).to_owned()).collect();
    SeenList {
        buyer,
        orders,
        back_to: None,
        sent_at_us: sent_ms * MS,
        answered_at_us: answered_ms * MS,
    }
}

/// Three units are sold in the first 30 ms. At 100 ms the first order is seen cancelled, and nobody
/// buys its unit. Buyer 4 is told "sold out" at the given times.
fn cancelled(sent_ms: u64, answered_ms: u64) -> Case {
    let mut case = Case::sound();
    case.history =
        Some(History { orders: vec![seen("order-1", "cancelled", 90, 100)], ..History::default() });
    case.answers = vec![
        at(sold(1), 0, 10),
        at(sold(2), 10, 20),
        at(sold(3), 20, 30),
        at(refused(4), sent_ms, answered_ms),
    ];
    let mut orders: Vec<Order> = (1..=3).map(order).collect();
    orders[0].status = "cancelled".into();
    let mut moved = sold_to(1..=3);
    moved.push(movement(1, "cancelled", 1));
    case.after = ledger(STOCK, 1, orders, moved);
    case
}

fn state(case: &Case, invariant: &str) -> State {
    case.finding(invariant).state
}

#[test]
fn a_memory_may_be_as_old_as_it_says_and_no_older() {
    // Sold out until 100 ms, and the memory may be half a second old.
    for sent_ms in [25, 90, 300, 599] {
        assert_eq!(state(&cancelled(sent_ms, sent_ms + 5), "I16"), State::Holds, "{sent_ms}");
    }
    let case = cancelled(602, 607);
    assert_eq!(state(&case, "I16"), State::Broken);
    let why = example(&case.judge(), "I16");
    assert!(why.contains("buyer 4") && why.contains("order-1 is cancelled"), "{why}");
    assert!(why.contains("told \"sold out\" at 0.607000 s"), "{why}");
    // Asked half a second after that moment, and a microsecond later.
    let mut case = cancelled(600, 607);
    case.answers[3].from_send_us -= 5;
    assert_eq!(state(&case, "I16"), State::Holds);
    case.answers[3].from_send_us -= 1;
    assert_eq!(state(&case, "I16"), State::Broken);
    // A long question includes the moments before.
    assert_eq!(state(&cancelled(599, 5_000), "I16"), State::Holds);
}

#[test]
fn what_nobody_saw_come_back_is_not_counted_as_left() {
    let mut case = cancelled(2_000, 2_001);
    case.history = Some(History::default());
    assert_eq!(state(&case, "I16"), State::Holds);
    case.history = None;
    assert_eq!(state(&case, "I16"), State::NotJudged);
    // What was seen to come back, and was paid for late, is not left either.
    let mut case = cancelled(2_000, 2_001);
    case.history.as_mut().expect("seen").orders[0].status = "expired".into();
    case.after.orders[0].status = "paid".into();
    assert_eq!(state(&case, "I16"), State::Holds);
}

#[test]
fn a_moment_at_which_the_last_unit_was_left_is_not_sold_out() {
    let mut case = cancelled(300, 305);
    case.answers.remove(2);
    case.after.orders.pop();
    assert_eq!(state(&case, "I16"), State::Broken);
}

/// One unit is left before the traffic, in which buyer 4 is told "sold out" and then buyer 1 asks again.
#[test]
fn an_order_from_before_has_its_units_since_the_start() {
    for (before, after, expected) in [
        ("pending", "pending", State::Broken),
        ("expired", "expired", State::Broken),
        ("expired", "paid", State::Holds),
        ("queued", "pending", State::Holds),
    ] {
        let of = |status: &str| vec![Order { status: status.into(), ..order(1) }];
        let mut case = with(History::default());
        case.before = ledger(STOCK, 1, of(before), Vec::new());
        case.after.orders = of(after);
        case.answers = vec![at(refused(4), 10, 20), at(sold(1), 30, 40)];
        assert_eq!(state(&case, "I16"), expected, "{before}, {after}");
    }
}

#[test]
fn a_sale_counts_from_its_first_request_on() {
    let mut case = cancelled(2_000, 2_001);
    // Buyer 5 asks for the unit all the time, and gets it in the end.
    case.answers.push(at(unknown(5), 150, 400));
    case.answers.push(Answer { attempt: 1, ..at(sold(5), 3_000, 3_100) });
    case.after.orders.push(order(5));
    assert_eq!(state(&case, "I16"), State::Holds);
    // Without that first request nobody can have had it at 2 s.
    case.answers.remove(4);
    assert_eq!(state(&case, "I16"), State::Broken);
}

#[test]
fn an_order_that_nobody_asked_for_may_have_been_there_all_the_time() {
    let mut case = cancelled(2_000, 2_001);
    case.after.orders.push(Order { key: None, ..order(9) });
    assert_eq!(state(&case, "I16"), State::Holds);
}

#[test]
fn sold_out_from_the_start_is_false() {
    let mut case = Case::sound();
    case.history = Some(History::default());
    case.answers = vec![at(refused(4), 1, 2), at(sold(1), 3, 4), at(sold(2), 3, 4)];
    case.after = ledger(STOCK, 1, vec![order(1), order(2)], sold_to(1..=2));
    assert_eq!(state(&case, "I16"), State::Broken);
    assert!(example(&case.judge(), "I16").contains("since the start"));
    // Another refusal says nothing about the units.
    case.answers[0].code = "limit_reached".into();
    assert_eq!(state(&case, "I16"), State::NotJudged);
}

/// Buyer 5 is told "sold out" at 2 s, after a restock that was answered at this moment.
fn restocked(units: i64, accepted_ms: Option<u64>) -> Case {
    let mut case = Case::sound();
    for (buyer, answer) in (1..).zip(&mut case.answers) {
        *answer = at(answer.clone(), buyer, buyer + 1);
    }
    case.answers[4] = at(refused(5), 2_000, 2_001);
    case.after.restocks = vec![Restock { id: "restock-1".into(), units }];
    case.after.stock.as_mut().expect("stock").total += units;
    let accepted_at_us = accepted_ms.map(|ms| ms * MS);
    let restocks = vec![SentRestock { units, sent_at_us: 900 * MS, accepted_at_us }];
    case.history = Some(History { restocks, ..History::default() });
    case
}

#[test]
fn a_restock_counts_from_its_answer_on() {
    for (accepted_ms, expected) in
        [(Some(1_000), State::Broken), (Some(1_800), State::Holds), (None, State::Holds)]
    {
        assert_eq!(state(&restocked(4, accepted_ms), "I16"), expected, "{accepted_ms:?}");
    }
    // It was taken out again at an unknown moment.
    let mut case = restocked(4, Some(1_000));
    case.after.restocks.push(Restock { id: "restock-2".into(), units: -4 });
    assert_eq!(state(&case, "I16"), State::Holds);
    // Of an item that was not read before, the stock includes the restock.
    let mut case = restocked(4, Some(1_000));
    case.before = Ledger::default();
    case.stock += 4;
    let why = example(&case.judge(), "I16");
    assert!(why.contains("at least 4 units were left since 1.000000 s"), "{why}");
}

/// A long line gets a large restock in parts, at moments that no answer shows.
#[test]
fn a_restock_that_comes_in_parts_does_not_count() {
    let waiting =
        |number| Place { number, buyer: number, status: "waiting".into(), ..Place::default() };
    for (units, buyers, expected) in
        [(2_000, 1_001, State::Holds), (2_000, 1_000, State::Broken), (1_999, 1_001, State::Broken)]
    {
        let mut case = restocked(units, Some(1_000));
        case.after.line.places = (1..=buyers).map(waiting).collect();
        assert_eq!(state(&case, "I16"), expected, "{units} units, {buyers} buyers");
    }
}

#[test]
fn a_unit_that_is_offered_is_not_left() {
    let mut case = cancelled(2_000, 2_001);
    let place = Place { number: 1, buyer: 7, status: "lapsed".into(), ..Place::default() };
    case.after.line.places = vec![Place { offered_at: Some(1), closed_at: Some(2), ..place }];
    assert_eq!(state(&case, "I16"), State::Holds);
    case.after.line.places[0].offered_at = None;
    assert_eq!(state(&case, "I16"), State::Broken);
}

#[test]
fn without_the_arbiter_the_word_of_the_gate_is_final() {
    let mut case = cancelled(2_000, 2_001);
    case.arbiter_on = false;
    assert_eq!(state(&case, "I16"), State::NotJudged);
}

fn with(history: History) -> Case {
    Case { history: Some(history), ..Case::sound() }
}

#[test]
fn paid_never_becomes_pending_again() {
    let steps = |first: &str, then: &str, sent_ms| {
        let orders = vec![seen("order-1", first, 5, 10), seen("order-1", then, sent_ms, 30)];
        state(&with(History { orders, ..History::default() }), "I17")
    };
    assert_eq!(steps("paid", "pending", 11), State::Broken);
    assert_eq!(steps("paid", MISSING, 11), State::Broken);
    assert_eq!(steps("cancelled", "paid", 11), State::Broken);
    assert_eq!(steps("pending", "queued", 11), State::Broken);
    for (first, then) in [("pending", "paid"), ("expired", "paid"), ("queued", "rejected")] {
        assert_eq!(steps(first, then, 11), State::Holds, "{first} {then}");
    }
    // The two requests were under way together.
    assert_eq!(steps("paid", "pending", 10), State::Holds);
    assert_eq!(state(&with(History::default()), "I17"), State::NotJudged);
}

#[test]
fn the_answer_of_a_purchase_is_a_sight_of_its_order() {
    let orders = vec![seen("order-1", "paid", 5, 10)];
    let mut case = with(History { orders, ..History::default() });
    case.answers[0] = at(Answer { order_status: Some("pending".into()), ..sold(1) }, 20, 30);
    assert_eq!(state(&case, "I17"), State::Broken);
}

#[test]
fn a_list_keeps_what_it_has_shown_and_what_was_answered() {
    let mut case = Case::sound();
    case.answers[0] = at(sold(1), 0, 10);
    let mut lists = |lists| {
        case.history = Some(History { lists, ..History::default() });
        state(&case, "I18")
    };
    assert_eq!(lists(vec![list(1, &["order-1"], 20, 30)]), State::Holds);
    assert_eq!(lists(vec![list(1, &[], 9, 30)]), State::Holds);
    assert_eq!(lists(vec![list(1, &[], 20, 30)]), State::Broken);
    assert_eq!(lists(vec![list(9, &["a"], 20, 30), list(9, &[], 31, 40)]), State::Broken);
    assert_eq!(lists(vec![list(9, &["a"], 20, 30), list(9, &[], 29, 40)]), State::Holds);
    assert_eq!(lists(vec![list(9, &["a"], 20, 30), list(9, &[], 30, 40)]), State::Holds);
    // It may be on a later page, if its id is lower.
    let cut = |back_to: &str| SeenList { back_to: Some(back_to.into()), ..list(1, &[], 20, 30) };
    assert_eq!(lists(vec![cut("order-2")]), State::Holds);
    assert_eq!(lists(vec![cut("order-0")]), State::Broken);
    assert_eq!(lists(Vec::new()), State::NotJudged);
    // What is only queued need not be in it.
    case.answers[0].status = 202;
    case.history = Some(History { lists: vec![list(1, &[], 20, 30)], ..History::default() });
    assert_eq!(state(&case, "I18"), State::Holds);
}

#[test]
fn a_replay_names_the_same_order() {
    let mut case = with(History::default());
    case.answers[0] = at(sold(1), 0, 10);
    let replay = Answer { attempt: 1, code: "sold".into(), ..at(sold(1), 20, 30) };
    case.answers.push(replay.clone());
    assert_eq!(state(&case, "I19"), State::Holds);
    assert_eq!(case.finding("I19").detail, "4 accepted answers");
    let other = Answer { order_id: Some("order-7".into()), ..replay };
    *case.answers.last_mut().expect("just pushed") = other;
    assert_eq!(state(&case, "I19"), State::Broken);
    case.answers.retain(|answer| answer.outcome != Outcome::Accepted);
    assert_eq!(state(&case, "I19"), State::NotJudged);
}

#[test]
fn the_first_answer_to_a_key_is_the_first_by_the_clock() {
    let named = |id: &str, attempt, sent_ms, answered_ms| Answer {
        attempt,
        order_id: Some(id.into()),
        ..at(sold(1), sent_ms, answered_ms)
    };
    let state = |answers: &[Answer]| {
        state(&Case { answers: answers.to_vec(), ..with(History::default()) }, "I19")
    };
    // The second attempt was answered before the first one was sent.
    assert_eq!(state(&[named("a", 0, 20, 30), named("b", 1, 0, 10)]), State::Broken);
    // Of two at one moment, the one of the first attempt.
    let first = named("a", 0, 0, 10);
    let second = named("b", 1, 0, 10);
    assert_eq!(state(&[first.clone(), second.clone()]), State::Holds);
    assert_eq!(state(&[first.clone(), second, named("b", 2, 20, 30)]), State::Broken);
    // A request that was sent at the moment of that answer did not know it.
    let mut other = named("b", 1, 10, 30);
    other.answered_at_us += 5;
    assert_eq!(state(&[first.clone(), other.clone()]), State::Holds);
    other.answered_at_us += 1;
    assert_eq!(state(&[first, other]), State::Broken);
}

#[test]
fn what_two_readers_saw_is_put_on_one_clock() {
    let from = |ms| History {
        orders: vec![seen("order-1", "paid", ms, ms + 10)],
        lists: vec![list(1, &["order-1"], ms, ms + 10)],
        restocks: vec![SentRestock {
            units: 4,
            sent_at_us: ms * MS,
            accepted_at_us: Some((ms + 10) * MS),
        }],
    };
    let mut history = from(20);
    history.shift(15 * MS);
    assert_eq!(format!("{history:?}"), format!("{:?}", from(5)));
    history.extend(from(30));
    let counts = [history.orders.len(), history.lists.len(), history.restocks.len()];
    assert_eq!(counts, [2, 2, 2]);
}
