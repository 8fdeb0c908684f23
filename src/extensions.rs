//! The extensions of this program: optional features, each a crate of its own. The core knows none of them, and the
//! service runs without any.

use extension::Extension;

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
