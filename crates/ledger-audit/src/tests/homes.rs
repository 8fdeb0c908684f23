//! Planted faults of items in several ledgers.

use crate::{FoundRows, ItemHome, State, judge_homes};

/// An item that lives in shard 1 since its second move.
fn item(change: impl FnOnce(&mut ItemHome)) -> ItemHome {
    let found = vec![FoundRows { shard: 1, rows: 9, home_epoch: Some(3) }];
    let mut item = ItemHome { item: 7, home: (1, 3), moving: None, found };
    change(&mut item);
    item
}

fn faults(change: impl FnOnce(&mut ItemHome)) -> Vec<String> {
    let finding = judge_homes(&[item(change)]);
    assert_eq!(finding.state == State::Holds, finding.examples.is_empty());
    finding.examples
}

#[test]
fn an_item_in_one_ledger_is_where_it_should_be() {
    assert_eq!(faults(|_| {}), [""; 0]);
}

#[test]
fn rows_that_were_left_behind_are_found() {
    let left = faults(|item| {
        item.found.push(FoundRows { shard: 0, rows: 1, home_epoch: None });
    });
    assert_eq!(left, ["item 7: it lives in shard 1, and shard 0 has 1 rows of it"]);
    let twice = faults(|item| {
        item.found.push(FoundRows { shard: 0, rows: 9, home_epoch: Some(3) });
    });
    assert_eq!(twice.len(), 1, "{twice:?}");
}

#[test]
fn an_item_that_is_not_at_home_or_cannot_be_written_is_found() {
    assert_eq!(faults(|item| item.found.clear()).len(), 1);
    assert_eq!(faults(|item| item.home = (0, 3)).len(), 2, "elsewhere, and not at home");
    assert_eq!(faults(|item| item.home = (1, 4)).len(), 1, "no route leads to it");
    assert_eq!(faults(|item| item.found[0].home_epoch = None).len(), 1);
}

#[test]
fn a_move_under_way_has_rows_at_its_two_ends_alone() {
    let moving = |item: &mut ItemHome| {
        item.moving = Some((1, 2, 4));
        item.found.push(FoundRows { shard: 2, rows: 5, home_epoch: Some(0) });
    };
    assert_eq!(faults(moving), [""; 0]);
    let closed = |item: &mut ItemHome| {
        moving(item);
        item.found[0].home_epoch = Some(4);
    };
    assert_eq!(faults(closed), [""; 0]);
    let flipped = |item: &mut ItemHome| {
        closed(item);
        item.found[1].home_epoch = Some(4);
        item.home = (2, 4);
    };
    assert_eq!(faults(flipped), [""; 0]);
    let third = |item: &mut ItemHome| {
        moving(item);
        item.found.push(FoundRows { shard: 0, rows: 5, home_epoch: Some(1) });
    };
    assert_eq!(faults(third).len(), 1);
}
