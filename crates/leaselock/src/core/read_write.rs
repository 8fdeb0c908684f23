//! Many readers or one writer: two locks over the same names.

use crate::LeasedMutex;

/// A lock that many readers or one writer can hold. The guards of both halves are ordinary guards:
/// renewed, with a lost signal, released when dropped.
///
/// The fences in its capabilities are those of `write`. A read guard may have none, since a reader
/// stores nothing.
///
/// A reader cannot become a writer: it would wait for itself. Release `read`, acquire `write`, and
/// read again.
#[derive(Clone, Debug)]
pub struct ReadWrite {
    /// The readers' half: excludes writers only.
    pub read: LeasedMutex,
    /// The writer's half: excludes everybody.
    pub write: LeasedMutex,
}
