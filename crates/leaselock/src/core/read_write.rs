//! Many readers or one writer: two locks over the same names.

use crate::LeasedMutex;

/// A lock that readers share and a writer has to itself. The guards of both halves are the guards
/// of every other lock: renewed, told in time when they are lost, given back when dropped.
///
/// The fences that its capabilities speak of are those of `write`. A read guard may have none, since
/// a reader stores nothing.
///
/// A reader cannot become a writer: it would wait for itself. Release `read`, acquire `write`, and
/// read again.
#[derive(Clone, Debug)]
pub struct ReadWrite {
    /// Excludes writers, not readers.
    pub read: LeasedMutex,
    /// Excludes everybody.
    pub write: LeasedMutex,
}
