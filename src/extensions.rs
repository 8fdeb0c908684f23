//! The extensions of this program: optional features, each a crate of its own. The core knows none of them, and the
//! service runs without any.

use extension::Extension;
use ledger::erasure::Eraser;
use ledger::erasure::traces::{self, Trace};
use ledger::waiting_list::Waitlist;

/// Every extension that this program was built with.
pub static ALL: &[&Extension] = &[
    #[cfg(feature = "draw")]
    &draw::EXTENSION,
    #[cfg(feature = "events")]
    &events::EXTENSION,
    #[cfg(feature = "files")]
    &files::EXTENSION,
    #[cfg(feature = "identity")]
    &identity::EXTENSION,
    #[cfg(feature = "lab")]
    &lab::EXTENSION,
    #[cfg(feature = "payment")]
    &payment::EXTENSION,
];

/// All that the core and these extensions have of a person.
pub fn personal_data() -> Vec<&'static Trace> {
    // Those of extensions first: an entry of a draw becomes a place in a waiting list.
    ALL.iter().flat_map(|extension| extension.personal_data).chain(&traces::ALL).collect()
}

/// The tables of extensions that have something of people, in this build or not, each with its extension.
const TABLES_WITH_PEOPLE: [(&str, &str); 2] = [("draw_entries", "draw"), ("event_log", "events")];

/// Makes the deletion of people from the tables of the core and of these extensions.
pub fn eraser(waitlist: Waitlist) -> Eraser {
    Eraser { waitlist, traces: personal_data(), tables_left: tables_left(ALL) }
}

/// The tables with people whose extension is none of `extensions`.
fn tables_left(extensions: &[&Extension]) -> Vec<&'static str> {
    let left = TABLES_WITH_PEOPLE
        .into_iter()
        .filter(|(_, owner)| extensions.iter().all(|extension| extension.name != *owner));
    left.map(|(table, _)| table).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A build without an extension names the tables that a deletion leaves. Each build compares its own extensions.
    #[test]
    fn each_table_with_people_is_left_without_its_extension() {
        assert_eq!(tables_left(&[]), ["draw_entries", "event_log"]);
        for extension in ALL {
            let left = tables_left(&[*extension]);
            let of_extension = TABLES_WITH_PEOPLE.iter().map(|(table, _)| *table);
            let ended: BTreeSet<&str> = of_extension.filter(|it| !left.contains(it)).collect();
            let known: BTreeSet<&str> =
                extension.personal_data.iter().map(|trace| trace.table).collect();
            assert_eq!(ended, known, "{}", extension.name);
        }
    }
}
