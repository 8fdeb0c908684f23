//! Planted halves of orders of several items.

use super::sale::*;
use crate::OrderLine;

/// The sale of [`Case::sound`], in which the first order has lines of three items.
fn case(change: impl FnOnce(&mut Vec<OrderLine>)) -> Case {
    let mut case = Case::sound();
    let line = |number: i64| OrderLine {
        order: "order-1-00".to_owned(),
        id: format!("order-1-{number:02x}"),
        item: 7 + number,
        buyer: 1,
        status: "pending".to_owned(),
        count: Some(3),
        is_sold: true,
    };
    case.after.lines = (0..3).map(line).collect();
    change(&mut case.after.lines);
    case
}

#[test]
fn a_whole_order_is_sound() {
    let judgement = case(|_| {}).judge();
    assert_eq!(judgement.broken(), Vec::<&str>::new(), "{:?}", judgement.findings);
}

#[test]
fn each_half_of_an_order_is_found() {
    let broken = |change: fn(&mut Vec<OrderLine>)| case(change).judge().broken();
    assert_eq!(broken(|lines| drop(lines.pop())), ["I20"], "a line is missing");
    assert_eq!(broken(|lines| lines[1].id = "order-1-07".to_owned()), ["I20"], "another number");
    assert_eq!(broken(|lines| lines[1].count = Some(2)), ["I20"], "another count");
    assert_eq!(broken(|lines| lines[1].count = Some(4)), ["I20"], "a higher count");
    assert_eq!(broken(|lines| lines[1].count = None), ["I20"], "a single purchase");
    assert_eq!(broken(|lines| lines[2].status = "paid".to_owned()), ["I20"], "half is paid");
    assert_eq!(broken(|lines| lines[2].buyer = 2), ["I20"], "another buyer");
    assert_eq!(broken(|lines| lines[2].item = 7), ["I20"], "the same item");
    assert_eq!(broken(|lines| lines[0].is_sold = false), ["I20"], "no movement");
}
