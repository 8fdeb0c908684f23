//! The locks that threads of this crate share, and the mistakes that its tests plant. The crate `interleavings` has a module of
//! this name: it compiles the files of this crate against locks that try many interleavings of threads.

pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard};

/// Whether a test has planted this mistake: never in this build.
pub(crate) const fn planted(_mistake: &str) -> bool {
    false
}
