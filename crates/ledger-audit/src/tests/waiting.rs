//! Planted faults of waiting lists and of limits that items share.

use super::sale::*;
use crate::{Group, Line, Place, State};

/// Place 1 was offered a unit and has bought it, place 2 is offered one, place 3 waits.
fn line() -> Line {
    let place = |number: i64, status: &str, offered_at: Option<i64>| Place {
        number,
        buyer: number,
        status: status.to_owned(),
        joined_at: number,
        offered_at,
        closed_at: (status == "accepted").then_some(30),
        order_id: (status == "accepted").then(|| format!("order-{number}")),
        party: None,
    };
    Line {
        offered: 1,
        places: vec![
            place(1, "accepted", Some(10)),
            place(2, "offered", Some(20)),
            place(3, "waiting", None),
        ],
    }
}

/// The sale of [`Case::sound`] with one more unit, which is offered.
pub fn case(change: impl FnOnce(&mut Line)) -> Case {
    let mut case = Case::sound();
    case.stock += 1;
    case.after.stock.as_mut().expect("a row").total += 1;
    case.after.line = line();
    change(&mut case.after.line);
    case
}

#[test]
fn a_sound_line_is_clean_and_its_offers_are_units() {
    let judgement = case(|_| {}).judge();
    assert_eq!(judgement.broken(), Vec::<&str>::new(), "{:?}", judgement.findings);
    assert_eq!(case(|_| {}).finding("I13").detail, "3 places, 1 open offers");
    // An offered unit that the stock row does not count is missing in the balance.
    assert_eq!(case(|line| line.offered = 0).judge().broken(), ["I1", "I3", "I12", "I13"]);
}

#[test]
fn each_fault_of_a_line_is_found() {
    let broken = |change: fn(&mut Line)| case(change).judge().broken();
    assert_eq!(broken(|line| line.places[2].status = "offered".to_owned()), ["I13"]);
    assert_eq!(broken(|line| line.places[2].buyer = 2), ["I13"], "twice in the line");
    assert_eq!(broken(|line| line.places[0].order_id = None), ["I13"], "no order");
    assert_eq!(
        broken(|line| line.places[0].order_id = Some("order-2".to_owned())),
        ["I13"],
        "another's order"
    );
    // Place 2 was offered a unit while place 1 was still waiting.
    assert_eq!(broken(|line| line.places[0].offered_at = Some(25)), ["I13"]);
    // Place 3 is served before place 2, which never was.
    assert_eq!(
        broken(|line| {
            line.places[1].status = "waiting".to_owned();
            line.places[1].offered_at = None;
            line.places[2].status = "offered".to_owned();
            line.places[2].offered_at = Some(20);
        }),
        ["I13"]
    );
    // A place that was left before is not overtaken.
    assert_eq!(
        broken(|line| {
            line.places[0].status = "left".to_owned();
            (line.places[0].offered_at, line.places[0].closed_at) = (None, Some(15));
        }),
        Vec::<&str>::new()
    );
    // Nor one that was offered a unit at the same moment.
    assert_eq!(broken(|line| line.places[0].offered_at = Some(20)), Vec::<&str>::new());
    // Who has bought may join again.
    assert_eq!(broken(|line| line.places[2].buyer = 1), Vec::<&str>::new());
}

#[test]
fn a_fault_of_a_line_is_named_once() {
    let examples = |change: fn(&mut Line)| case(change).finding("I13").examples;
    let served_at_once = |line: &mut Line| {
        let waiting = line.places[2].clone();
        line.places[0] = Place { number: 1, buyer: 1, ..waiting };
        line.places[2] = Place { number: 3, buyer: 3, ..line.places[1].clone() };
        line.offered = 2;
    };
    assert_eq!(examples(served_at_once), ["place 3 was served before place 1"]);
    let offered_twice = |line: &mut Line| {
        line.places[1] = Place { number: 2, ..line.places[0].clone() };
        line.offered = 0;
    };
    assert_eq!(examples(offered_twice), ["order order-1 was offered twice"]);
}

#[test]
fn a_buyer_above_a_shared_limit_is_found() {
    let mut case = Case::sound();
    assert_eq!(case.finding("I14").state, State::NotJudged);
    case.after.group = Some(Group { limit: 2, over: Vec::new() });
    assert_eq!(case.finding("I14").state, State::Holds);
    case.after.group = Some(Group { limit: 2, over: vec![(7, 3)] });
    assert_eq!(case.judge().broken(), ["I14"]);
}

/// Buyers 2 and 3 are friends, who wait; buyers 4 and 5 stand behind them.
fn friends(change: impl FnOnce(&mut Line)) -> Case {
    let mut case = case(|line| {
        let place = |number: i64, offered_at: Option<i64>| Place {
            number,
            buyer: number,
            status: if offered_at.is_some() { "offered" } else { "waiting" }.to_owned(),
            joined_at: 1,
            offered_at,
            closed_at: None,
            order_id: None,
            party: (number < 4).then(|| "friends".to_owned()),
        };
        line.places.truncate(1);
        line.places.extend([place(2, None), place(3, None), place(4, Some(20)), place(5, None)]);
        change(line);
    });
    case.after.draw = Some(crate::Draw::default());
    case
}

#[test]
fn friends_are_overtaken_by_units_that_are_too_few_for_them() {
    // There is no proof, which is the fault of I21.
    let broken = |change: fn(&mut Line)| friends(change).judge().broken();
    assert_eq!(broken(|_| {}), ["I21"]);
    let two = |line: &mut Line| {
        (line.places[4].offered_at, line.places[4].status) = (Some(20), "offered".to_owned());
        line.offered = 2;
    };
    let passed =
        |place| format!("2 places were served before place {place}, which is one of 2 friends");
    assert_eq!(friends(two).finding("I13").examples, [3, 2].map(passed), "two were enough");
    let one_by_one = |line: &mut Line| {
        (line.places[4].offered_at, line.places[4].status) = (Some(25), "offered".to_owned());
        line.offered = 2;
    };
    assert_eq!(friends(one_by_one).finding("I13").state, State::Holds);
}

#[test]
fn friends_who_are_offered_units_one_by_one_are_found() {
    let found = |change: fn(&mut Line)| friends(change).finding("I21").examples.len();
    assert_eq!(found(|_| {}), 1, "there is no proof");
    assert_eq!(found(|line| line.places[1].offered_at = Some(20)), 2, "one of two");
    let together = |line: &mut Line| {
        (line.places[1].offered_at, line.places[2].offered_at) = (Some(20), Some(20));
    };
    assert_eq!(found(together), 1);
    let left_before = |line: &mut Line| {
        line.places[1].offered_at = Some(20);
        line.places[2].closed_at = Some(10);
    };
    assert_eq!(found(left_before), 1);
}
