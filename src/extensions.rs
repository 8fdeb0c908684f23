//! The extensions of this program: optional features, each a crate of its own. The core knows none of them, and the
//! service runs without any.

use extension::Extension;
use ledger::erasure::traces::{self, Trace};

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
#[must_use]
pub fn personal_data() -> Vec<&'static Trace> {
    // Those of extensions first: an entry of a draw becomes a place in a waiting list.
    ALL.iter().flat_map(|extension| extension.personal_data).chain(&traces::ALL).collect()
}
