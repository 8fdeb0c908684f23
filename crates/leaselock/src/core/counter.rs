//! A shared counter: a number that many change without losing an update.

use futures::future::BoxFuture;

use crate::{Capabilities, CommandError, LockName};

/// A whole number per name, zero before it is first changed. Every change is atomic.
pub trait SharedCounter: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Adds `delta`, which may be negative, and answers the sum. A sum that does not fit into 64 bits
    /// is [`CommandError::Refused`].
    fn add<'a>(
        &'a self,
        name: &'a LockName,
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, CommandError>>;

    /// The present number.
    fn get<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<i64, CommandError>>;

    /// Writes `new` if the number is `expected`; otherwise changes nothing and answers `false`.
    fn compare_and_set<'a>(
        &'a self,
        name: &'a LockName,
        expected: i64,
        new: i64,
    ) -> BoxFuture<'a, Result<bool, CommandError>>;
}
