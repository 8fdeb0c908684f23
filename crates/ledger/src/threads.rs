//! The locks that threads of the batches share, and the mistakes that tests plant in them. The crate `interleavings` has a
//! module of this name: it compiles those files against locks that try many interleavings of threads.

pub(crate) use std::sync::atomic::AtomicBool;
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Whether a test has planted this mistake: never in this build.
pub(crate) const fn planted(_mistake: &str) -> bool {
    false
}
