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
        buyers_over_limit: 0,
        buyers_miscounted: 0,
        movements_sum: -4,
        orders_without_their_movements: 0,
        movements_without_order: 0,
        give_backs_wrong: 0,
        fences_fallen: 0,
        fences_above_accepted: 0,
        fences_not_compared: 0,
        offers_open: 1,
        offers_without_their_orders: 0,
        places_overtaken: 0,
        waiting_in_vain: 0,
        is_grouped: true,
        group_buyers_over_limit: 0,
        group_buyers_miscounted: 0,
        orders_halved: 0,
        draw_places_wrong: Some(0),
        orders_mispriced: 0,
        orders_paid_wrongly: 0,
        redis_available: Some(5),
        redis_queued: 0,
        redis_buckets: None,
        strategy_rows: Vec::new(),
    }
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
    let deleted_order = Facts { units_sold: 2, movements_without_order: 1, ..sound() };
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
    assert_eq!(broken(Facts { buyers_over_limit: 1, ..sound() }), ["I2"]);
    assert_eq!(broken(Facts { movements_sum: -3, ..sound() }), ["I3"]);
    assert_eq!(broken(Facts { give_backs_wrong: 1, ..sound() }), ["I5"]);
    assert_eq!(broken(Facts { fences_fallen: 1, ..sound() }), ["I6"]);
    assert_eq!(broken(Facts { fences_above_accepted: 1, ..sound() }), ["I6"]);
    assert_eq!(broken(Facts { fences_not_compared: 1, ..sound() }), ["I6"]);
    let unguarded = Facts { arbiter: ArbiterMode::Off, fences_not_compared: 1, ..sound() };
    assert_eq!(broken(unguarded), [""; 0]);
    assert_eq!(broken(Facts { offers_open: 2, ..sound() }), ["I13"]);
    assert_eq!(broken(Facts { offers_without_their_orders: 1, ..sound() }), ["I13"]);
    assert_eq!(broken(Facts { places_overtaken: 1, ..sound() }), ["I13"]);
    assert_eq!(broken(Facts { waiting_in_vain: 1, ..sound() }), ["I13"]);
    assert_eq!(broken(Facts { group_buyers_over_limit: 1, ..sound() }), ["I14"]);
    assert_eq!(broken(Facts { group_buyers_miscounted: 1, ..sound() }), ["I14"]);
    assert_eq!(broken(Facts { orders_halved: 1, ..sound() }), ["I20"]);
    assert_eq!(broken(Facts { draw_places_wrong: Some(1), ..sound() }), ["I21"]);
    assert_eq!(broken(Facts { orders_mispriced: 1, ..sound() }), ["I22"]);
    assert_eq!(broken(Facts { orders_paid_wrongly: 1, ..sound() }), ["I22"]);
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
            offers_open: 0,
            units_sold: 12,
            units_held: 0,
            movements_sum: -12,
            redis_available: None,
            ..sound()
        });
        assert_eq!((report.units_oversold(), report.is_clean()), (2, false), "{available}");
    }
}
