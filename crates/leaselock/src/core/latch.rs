//! A countdown latch: waiters go on once a number has been counted down to zero.

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::{Capabilities, CommandError, LockName};

/// A number per name that only falls, down to zero. What is not set counts as zero, so a waiter
/// that comes late goes on at once.
pub trait CountdownLatch: Send + Sync + 'static {
    /// What this kind promises, as data.
    fn capabilities(&self) -> &'static Capabilities;

    /// Starts to count down from `count`. `false`, and nothing is changed, while an earlier count is
    /// not down to zero. Setting zero is allowed and changes nothing.
    fn set<'a>(
        &'a self,
        name: &'a LockName,
        count: u64,
    ) -> BoxFuture<'a, Result<bool, CommandError>>;

    /// Counts down by one and tells what is left. At zero it stays at zero.
    fn count_down<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>>;

    /// What is left.
    fn count<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<u64, CommandError>>;

    /// Waits for zero: `true`, or `false` when it was not reached by `until`.
    fn wait<'a>(
        &'a self,
        name: &'a LockName,
        until: Instant,
    ) -> BoxFuture<'a, Result<bool, CommandError>>;
}
