//! I20: an order of several items is whole or absent.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Evidence, Faults, Finding, OrderLine};

/// Judges I20.
pub fn judge(evidence: &Evidence<'_>) -> Finding {
    let mut orders: BTreeMap<&str, Vec<&OrderLine>> = BTreeMap::new();
    for line in &evidence.after.lines {
        orders.entry(&line.order).or_default().push(line);
    }
    let mut faults = Faults::default();
    for (order, lines) in &orders {
        if let Some(fault) = fault_of(lines) {
            faults.add(format_args!("order {order} {fault}"));
        }
    }
    let detail = format!("{} orders with a line of the item and lines of others", orders.len());
    Finding::judged("I20", "an order of several items is whole or absent", detail, faults)
}

/// What keeps these lines from being one whole order.
fn fault_of(lines: &[&OrderLine]) -> Option<String> {
    let counts: BTreeSet<Option<i64>> = lines.iter().map(|line| line.count).collect();
    let found = i64::try_from(lines.len()).unwrap_or(i64::MAX);
    if counts.len() > 1 || counts.first() != Some(&Some(found)) {
        return Some(format!("has {found} lines, which say that it has {counts:?}"));
    }
    let mut ids: Vec<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    ids.sort_unstable();
    let are_numbered = |(number, id): (usize, &&str)| id.ends_with(&format!("{number:02x}"));
    if !ids.iter().enumerate().all(are_numbered) {
        return Some(format!("has the lines {ids:?}"));
    }
    let distinct = |what: fn(&OrderLine) -> String| {
        lines.iter().map(|line| what(line)).collect::<BTreeSet<_>>()
    };
    let statuses = distinct(|line| line.status.clone());
    if statuses.len() > 1 {
        return Some(format!("is {statuses:?}"));
    }
    if distinct(|line| line.buyer.to_string()).len() > 1 {
        return Some("is of several buyers".to_owned());
    }
    let items = distinct(|line| line.item.to_string());
    if items.len() < lines.len() {
        return Some(format!("has two lines of one item: {items:?}"));
    }
    let sold = lines.iter().filter(|line| line.is_sold).count();
    (sold < lines.len()).then(|| format!("has taken the units of {sold} of {found} lines"))
}
