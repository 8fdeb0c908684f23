//! The locks that threads of this crate share. The crate `interleavings` has a module of this name: it
//! compiles the files of this crate against locks that try many interleavings of threads.

pub(crate) use std::sync::{LazyLock, Mutex, MutexGuard};
