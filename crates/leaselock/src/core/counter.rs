//! A shared counter: a number that many change without losing an update.

use async_trait::async_trait;

use crate::{Capabilities, CommandError, LockName};

/// A whole number per name, zero before it is first changed. Every change is atomic.
#[async_trait]
pub trait SharedCounter: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Adds `delta`, which may be negative, and returns the sum. A sum that does not fit into 64 bits
    /// is [`CommandError::Refused`].
    async fn add(&self, name: &LockName, delta: i64) -> Result<i64, CommandError>;

    /// The present number.
    async fn get(&self, name: &LockName) -> Result<i64, CommandError>;

    /// Writes `new` if the number is `expected`; otherwise changes nothing and returns `false`.
    async fn compare_and_set(
        &self,
        name: &LockName,
        expected: i64,
        new: i64,
    ) -> Result<bool, CommandError>;
}
