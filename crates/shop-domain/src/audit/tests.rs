use super::*;

fn sound() -> Facts {
    Facts {
        item_id: ItemId::new(1).expect("positive"),
        arbiter: ArbiterMode::On,
        total: 10,
        total_written_down: Some(10),
        available: 5,
        offered: 1,
        units_sold: 3,
        units_held: 1,
        orders: 4,
        movements_sum: -4,
        counted: COUNTED.map(|invariant| (invariant, "wrong", 0)).into(),
        redis_available: Some(5),
        redis_queued: 0,
        redis_buckets: None,
        strategy_rows: Vec::new(),
    }
}

/// The invariants that rows are counted against.
const COUNTED: [&str; 9] = ["I2", "I4", "I5", "I6", "I13", "I14", "I20", "I21", "I22"];

/// Facts with one row against an invariant.
fn with(invariant: &'static str) -> Facts {
    let mut facts = sound();
    facts.counted.push((invariant, "planted", 1));
    facts
}

fn broken(facts: Facts) -> Vec<&'static str> {
    let report = verify(facts);
    report.findings.iter().filter(|f| f.holds == Some(false)).map(|f| f.invariant).collect()
}

#[test]
fn a_sound_item_is_clean() {
    assert!(verify(sound()).is_clean());
    assert_eq!(verify(sound()).units_oversold(), 0);
}

#[test]
fn each_planted_fault_is_named() {
    let deleted_order = Facts { units_sold: 2, ..with("I4") };
    assert_eq!(broken(deleted_order), ["I1", "I4"]);
    let below_zero = Facts {
        available: -1,
        units_sold: 9,
        movements_sum: -10,
        redis_available: None,
        ..sound()
    };
    assert_eq!(broken(below_zero), ["I1"]);
    assert_eq!(broken(Facts { total_written_down: Some(9), ..sound() }), ["I1"]);
    assert_eq!(broken(Facts { total_written_down: None, ..sound() }), [""; 0]);
    assert_eq!(broken(Facts { movements_sum: -3, ..sound() }), ["I3"]);
    for invariant in COUNTED {
        assert_eq!(broken(with(invariant)), [invariant]);
        let is_kept = !["I2", "I6", "I13"].contains(&invariant);
        let unguarded = Facts { arbiter: ArbiterMode::Off, ..with(invariant) };
        assert_eq!(broken(unguarded).len(), usize::from(is_kept), "{invariant}");
        let mut uncounted = sound();
        uncounted.counted.retain(|(name, ..)| *name != invariant);
        let report = verify(uncounted);
        let findings: Vec<_> = report.findings.iter().filter(|it| it.holds.is_none()).collect();
        assert!(matches!(findings[..], [it] if it.invariant == invariant), "{findings:?}");
    }
    assert_eq!(broken(Facts { redis_available: Some(9), ..sound() }), ["I7"]);
    assert_eq!(broken(Facts { redis_queued: 1, ..sound() }), ["I7"]);
    assert_eq!(broken(Facts { redis_buckets: Some(7), ..sound() }), ["I7"]);
    assert_eq!(broken(Facts { redis_buckets: Some(5), ..sound() }), [""; 0]);
    let rows = |rows| Facts { strategy_rows: vec![("rows", rows)], ..sound() };
    assert_eq!(broken(rows(6)), ["I7"]);
    assert_eq!(broken(rows(4)), [""; 0]);
}

/// Twelve units sold of ten without an arbiter: a gate counted by itself, or the stock row was overwritten.
#[test]
fn units_beyond_the_stock_are_oversold_whatever_the_row_says() {
    for available in [-2, 2] {
        let report = verify(Facts {
            arbiter: ArbiterMode::Off,
            available,
            offered: 0,
            units_sold: 12,
            units_held: 0,
            movements_sum: -12,
            redis_available: None,
            ..sound()
        });
        assert_eq!((report.units_oversold(), report.is_clean()), (2, false), "{available}");
    }
}
