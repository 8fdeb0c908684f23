//! Faults planted in the log of a sale.

use super::sale::Case;
use crate::Log;
use crate::rules::receipts::name_of;

const SECRET: &str = "0101010101010101010101010101010101010101010101010101010101010101";

/// A sale whose log has its three orders, and `lines`.
fn case(change: impl FnOnce(&mut Vec<String>)) -> Case {
    let mut case = Case::sound();
    let mut lines = vec!["sale-log 1".to_owned(), "item 7".to_owned()];
    lines.push("opened 1 3 1 60".to_owned());
    for (number, order) in (1..).zip(&mut case.after.orders) {
        order.id = format!("0190b3f0-0000-7000-8000-{number:012}");
        let name = name_of(SECRET, &order.id).expect("a name");
        lines.push(format!("sold 1 {name} {number:032} 1"));
    }
    change(&mut lines);
    let text = lines.iter().map(|line| format!("{line}\n")).collect();
    case.after.log = Some(Log { text, secret: SECRET.to_owned(), waiting: 0 });
    case
}

fn faults(case: &Case) -> Vec<String> {
    let findings = case.judge().findings;
    let found = findings.into_iter().find(|finding| finding.invariant == "I22");
    found.expect("I22").examples
}

#[test]
fn a_log_that_differs_from_the_orders_is_found() {
    assert!(Case::sound().judge().findings.iter().all(|finding| finding.invariant != "I22"));
    // These logs have no heads, which is one fault.
    assert_eq!(faults(&case(|_| {})).len(), 1);
    let left_out = faults(&case(|lines| drop(lines.pop())));
    assert!(left_out.iter().any(|fault| fault.contains("is not in the log")), "{left_out:?}");
    let added = faults(&case(|lines| {
        lines.push(format!("sold 1 {:032} {:032} 1", 9, 9));
    }));
    assert!(added.iter().any(|fault| fault.contains("1 entries have no order")), "{added:?}");
    let gone = faults(&case(|lines| {
        let line = lines.last().expect("a line").replace("sold", "returned");
        lines.push(line);
    }));
    assert!(gone.iter().any(|fault| fault.contains("is not in the log")), "{gone:?}");
    let mut waits = case(|_| {});
    waits.after.log.as_mut().expect("a log").waiting = 1;
    assert!(faults(&waits).iter().any(|fault| fault.contains("are not in the log")));
}
