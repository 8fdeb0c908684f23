//! The locks that threads of the batches share. The crate `interleavings` has a module of this name: it
//! compiles those files against locks that try many interleavings of threads.

pub(crate) use std::sync::atomic::AtomicBool;
pub(crate) use std::sync::{Mutex, MutexGuard};
