//! I21: the places of a draw.

use std::collections::HashMap;

use verify::Known;

use super::waiting::split_parties;
use crate::{Draw, Evidence, Faults, Finding, Line};

/// I21: places are the published shuffle, and the line is in their order; `None` when the item has no draw that is over.
pub fn places(evidence: &Evidence<'_>) -> Option<Finding> {
    const CLAIM: &str = "places are the published shuffle";
    let draw = evidence.after.draw.as_ref()?;
    let detail = format!("{} entries", draw.buyers.len());
    Some(Finding::judged("I21", CLAIM, detail, faults_of(draw, &evidence.after.line)))
}

fn faults_of(draw: &Draw, line: &Line) -> Faults {
    let mut faults = Faults::default();
    for (_, sentence) in verify::check(&draw.proof, Known::default()) {
        faults.add(format_args!("{sentence}"));
    }
    // The first place of each buyer in the line; a buyer may have joined again later.
    let mut first: HashMap<i64, i64> = HashMap::new();
    for place in &line.places {
        first.entry(place.buyer).or_insert(place.number);
    }
    let entries = draw.buyers.iter().zip(&draw.proof.entries);
    let mut standing: Vec<(Option<u64>, i64)> =
        entries.map(|(buyer, entry)| (entry.place, *buyer)).collect();
    standing.sort_unstable();
    let mut before = 0;
    for (place, buyer) in standing {
        match first.get(&buyer) {
            None => faults.add(format_args!("buyer {buyer} has an entry and is not in the line")),
            Some(number) if *number <= before => {
                faults.add(format_args!("place {} is behind a later one", place.unwrap_or(0)));
            }
            Some(number) => before = *number,
        }
    }
    split_parties(&line.places, &mut faults);
    faults
}
