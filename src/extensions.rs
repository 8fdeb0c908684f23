//! The extensions of this program: optional features, each a crate of its own. The core knows none of them, and the
//! service runs without any.

use extension::Extension;

/// Every extension that this program was built with.
pub const ALL: &[&dyn Extension] = &[
    #[cfg(feature = "draw")]
    &draw::Draw,
    #[cfg(feature = "events")]
    &events::Events,
    #[cfg(feature = "files")]
    &files::Files,
    #[cfg(feature = "identity")]
    &identity::Identity,
    #[cfg(feature = "lab")]
    &lab::Lab,
    #[cfg(feature = "payment")]
    &payment::Payment,
];
