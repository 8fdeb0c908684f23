//! I15: each item lives in one ledger, and no other one has rows of it.

use crate::{Faults, Finding, ItemHome};

const CLAIM: &str = "an item lives in exactly one shard, and no other shard has rows of it";

/// Judges I15 over the items of all ledgers together.
pub fn judge(items: &[ItemHome]) -> Finding {
    let mut faults = Faults::default();
    for item in items {
        for fault in faults_of(item) {
            faults.add(format_args!("item {}: {fault}", item.item));
        }
    }
    let moving = items.iter().filter(|item| item.moving.is_some()).count();
    let detail = format!("{} items, {moving} of them moving", items.len());
    Finding::judged("I15", CLAIM, detail, faults)
}

fn faults_of(item: &ItemHome) -> Vec<String> {
    let (home, epoch) = item.home;
    let mut faults = Vec::new();
    for there in &item.found {
        // Rows of an item that moves are at both ends for a while.
        let is_end = |ends: &(u16, u16, u64)| there.shard == ends.0 || there.shard == ends.1;
        if there.shard != home && !item.moving.as_ref().is_some_and(is_end) {
            let (shard, rows) = (there.shard, there.rows);
            faults
                .push(format!("it lives in shard {home}, and shard {shard} has {rows} rows of it"));
        }
    }
    let at_home = item.found.iter().find(|there| there.shard == home);
    match at_home.and_then(|there| there.home_epoch) {
        None => faults.push(format!("shard {home}, where it lives, has no stock row of it")),
        Some(found) if found == epoch => {}
        // Closed, and not flipped yet.
        Some(found)
            if item.moving.is_some_and(|(source, _, next)| source == home && found == next) => {}
        Some(found) => {
            faults.push(format!("its route has the epoch {epoch}, its stock row has {found}"));
        }
    }
    faults
}
