//! How faults are counted, and when a judgement is clean.

use crate::{FaultCounts, Faults, Finding, Judgement};

const ONE_TO_FIVE: FaultCounts =
    FaultCounts { oversold: 1, undersold: 2, lost: 3, phantom: 4, duplicates: 5 };

fn faults(count: i64) -> Faults {
    Faults { count, ..Faults::default() }
}

#[test]
fn every_fault_is_counted_and_the_first_five_are_shown() {
    let mut found = Faults::default();
    (1..=6).for_each(|number| found.add(format_args!("fault {number}")));
    assert_eq!(found.count, 6);
    assert_eq!(found.examples, ["fault 1", "fault 2", "fault 3", "fault 4", "fault 5"]);
    assert_eq!(Faults::of_units(0, || "none".to_owned()), Faults::default());
    assert_eq!(Faults::of_units(2, || "two".to_owned()).examples, ["two"]);
}

#[test]
fn each_kind_is_counted_by_itself() {
    let judgement = Judgement {
        oversold: faults(1),
        undersold: faults(2),
        lost: faults(3),
        phantom: faults(4),
        duplicates: faults(5),
        ..Judgement::default()
    };
    assert_eq!(judgement.counts(), ONE_TO_FIVE);
    let of_another = FaultCounts { oversold: 7, ..FaultCounts::default() };
    let sum = ONE_TO_FIVE.with(of_another, |one, other| one + other);
    assert_eq!(sum, FaultCounts { oversold: 8, ..ONE_TO_FIVE });
    let larger = ONE_TO_FIVE.with(of_another, i64::max);
    assert_eq!(larger, FaultCounts { oversold: 7, ..ONE_TO_FIVE });
}

#[test]
fn a_broken_invariant_or_a_count_alone_is_not_clean() {
    assert!(Judgement::default().is_clean());
    let broken = Finding::judged("I3", "a claim", String::new(), faults(1));
    assert!(!Judgement { findings: vec![broken], ..Judgement::default() }.is_clean());
    assert!(!Judgement { lost: faults(1), ..Judgement::default() }.is_clean());
}
